"""`HubActor`: the registry. It alone writes the server table, and starts, parks and probes the client supervisors.

Each slot lives in one of these states; every arrow is a message:

    idle ──Start──> starting ──Connected──> ready
                       │                      │
                     Down                   Down          (of the client: its supervisor restarts it)
                       v                      v
                    restarting <──────────────┘──Connecting──> starting ...
                       │
                     Down of the client's supervisor      (restart intensity exceeded)
                       v
                    parked ──Probe, every probe_interval──> starting
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import anyio
from anyio.abc import TaskGroup
from pykka.messages import ProxyCall

from conduit_actors.client_actor import ClientActor, Connected, Connecting, ToolsChanged
from conduit_actors.connection import Connection
from conduit_actors.errors import ConduitError, ConfigurationError, bounded
from conduit_actors.pin_gate import PinGate
from conduit_actors.pinning import PinFinding
from conduit_actors.secrets import hide_also
from conduit_actors.server import Server
from conduit_actors.table import ServerTable, Slot, SlotKey
from conduit_supervision import (
    Backoff,
    ChildSpec,
    Down,
    DynamicSupervisor,
    ExitReason,
    RestartIntensity,
    Supervisor,
    TaskActor,
    TaskActorRef,
)


@dataclass(frozen=True, slots=True)
class ClientsUp:
    """The supervisor of all client supervisors runs (again)."""

    supervisor: TaskActorRef[Any]


@dataclass(frozen=True, slots=True)
class AddServer:
    server: Server


@dataclass(frozen=True, slots=True)
class RemoveServer:
    server_id: str


@dataclass(frozen=True, slots=True)
class RestartServer:
    server_id: str


_CREDENTIALS = {"url": ("headers", "auth"), "command": ("env",), "transport": ()}


@dataclass(frozen=True, slots=True)
class UpdateCredentials:
    """Go on with these fields of the server replaced: headers, auth, env."""

    server_id: str
    changes: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ApproveTool:
    """Pin the definition that the finding is about."""

    finding: PinFinding


@dataclass(frozen=True, slots=True)
class Start:
    """Connect a slot that is idle, or that no call of this principal has asked for yet."""

    key: SlotKey


@dataclass(frozen=True, slots=True)
class _Stopped:
    """A client supervisor that we stopped is gone, its process included."""

    slot: Slot


@dataclass(frozen=True, slots=True)
class _Probe:
    key: SlotKey
    slot: Slot


@dataclass(frozen=True, slots=True)
class _CheckIdle:
    key: SlotKey
    slot: Slot


@dataclass(slots=True)
class _Stopping:
    start_again: bool
    gone: anyio.Event = field(default_factory=anyio.Event)


class HubActor(TaskActor):
    """Registry of servers.

    Args:
        table: the server table; this actor is its only writer.
        on_change: called after each change of a slot's state, with the slot and the state before.
        pins: what holds back tools that changed since they were approved.
    """

    def __init__(self, table: ServerTable, on_change: Callable[[Slot, str], None], pins: PinGate) -> None:
        super().__init__()
        self._pins = pins
        self._table = table
        self._on_change = on_change
        self._clients: TaskActorRef[Any] | None = None
        self._owners: dict[SlotKey, TaskActorRef[Any]] = {}
        self._live: dict[SlotKey, TaskActorRef[Any]] = {}
        self._stopping: dict[Slot, _Stopping] = {}
        self._tasks: TaskGroup | None = None

    @asynccontextmanager
    async def lifespan(self) -> AsyncGenerator[None, None]:
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            yield
            tasks.cancel_scope.cancel()

    async def on_receive(self, message: object) -> Any:
        reply: Any = None
        match message:
            case Connecting(key, client):
                self._connecting(key, client)
            case Connected():
                await self._connected(message)
            case ToolsChanged(key, client):
                await self._tools_changed(key, client)
            case UpdateCredentials(server_id, changes):
                reply = await self._update_credentials(server_id, changes)
            case ApproveTool(finding):
                await self._approve(finding)
            case Down(ref, reason):
                self._down(ref, reason)
            case Start(key):
                await self._start(key)
            case _Probe(key, slot) if self._table.slots.get(key) is slot and slot.state == "parked":
                await self._start_client(slot, probing=True)
            case _CheckIdle(key, slot) if self._table.slots.get(key) is slot:
                self._check_idle(slot)
            case _Stopped(slot):
                await self._stopped(slot)
            case ClientsUp(supervisor):
                await self._boot(supervisor)
            case AddServer(server):
                await self._add(server)
            case RemoveServer(server_id):
                reply = self._remove(server_id)
            case RestartServer(server_id):
                reply = await self._restart(server_id)
            case _:
                pass
        return reply

    # Servers come and go

    async def _boot(self, supervisor: TaskActorRef[Any]) -> None:
        """Start every server: at first, and again after the client supervisors were restarted below us."""
        self._clients = supervisor
        self._owners.clear()
        self._live.clear()
        for server in self._table.servers.values():
            if not server.per_principal:
                self._table.slots.setdefault((server.id, None), Slot(server))
        for slot in list(self._table):
            self._set(slot, "idle", connection=None)
            if not slot.server.lazy:
                await self._start_client(slot)

    async def _add(self, server: Server) -> None:
        if server.id in self._table.servers:
            raise ConfigurationError(f"there is already a server {server.id!r}")
        self._table.servers[server.id] = server
        if server.per_principal:
            self._table.touch()
            return
        slot = self._table.slots[(server.id, None)] = Slot(server)
        self._table.touch()
        if not server.lazy:
            await self._start_client(slot)

    def _remove(self, server_id: str) -> list[anyio.Event]:
        """Forget a server. The events are set when its connections are closed."""
        self._known(server_id)
        del self._table.servers[server_id]
        gone: list[anyio.Event] = []
        for slot in self._slots_of(server_id):
            del self._table.slots[slot.key]
            self._set(slot, "stopped", connection=None)
            gone.append(self._stop_client(slot, start_again=False))
        self._table.touch()
        return gone

    async def _restart(self, server_id: str) -> list[anyio.Event]:
        """A fresh start with a fresh budget, whatever state the server is in."""
        self._known(server_id)
        gone: list[anyio.Event] = []
        for slot in self._slots_of(server_id):
            self._set(slot, "starting", connection=None)
            gone.append(self._stop_client(slot, start_again=True))
        return gone

    async def _update_credentials(self, server_id: str, changes: Mapping[str, Any]) -> list[anyio.Event]:
        """The events are set when the connections that cannot go on with them are closed."""
        self._known(server_id)
        before = self._table.servers[server_id]
        kind = "url" if before.url is not None else "command" if before.command is not None else "transport"
        useless = [name for name in changes if name not in _CREDENTIALS[kind]]
        if useless or not changes:
            what = " or ".join(useless) or "nothing"
            raise ConfigurationError(f"the server {server_id!r} has a {kind}, which takes no {what}")
        server = replace(before, **changes)
        hide_also(server, before)
        self._table.servers[server_id] = server
        gone: list[anyio.Event] = []
        for slot in self._slots_of(server_id):
            slot.server = server
            if slot.connection is not None and "env" not in changes:
                slot.connection.use(server)
            elif slot.state != "idle":
                # A program has its environment from its start on, and what failed with the old ones gets a fresh try.
                self._set(slot, "starting", connection=None)
                gone.append(self._stop_client(slot, start_again=True))
        self._table.touch()
        return gone

    async def _start(self, key: SlotKey) -> None:
        server = self._table.servers.get(key[0])
        if server is None:
            return
        slot = self._table.slots.get(key)
        if slot is None:
            slot = self._table.slots[key] = Slot(server, principal=key[1])
        if slot.state != "idle":
            return
        if slot in self._stopping:
            # At most one live child per connection: the old one has to be gone first.
            self._set(slot, "starting")
            self._stopping[slot].start_again = True
        else:
            await self._start_client(slot)

    def _known(self, server_id: str) -> None:
        if server_id not in self._table.servers:
            raise ConfigurationError(f"there is no server {server_id!r}")

    def _slots_of(self, server_id: str) -> list[Slot]:
        return [slot for slot in self._table if slot.server.id == server_id]

    # One slot's client

    async def _start_client(self, slot: Slot, *, probing: bool = False) -> None:
        """Start a supervisor whose one child is the slot's client. It returns before the connection is open."""
        if self._clients is None:
            return
        policy = slot.server.restart
        # Transient and significant: a probe that finds the server still down ends its supervisor as well.
        client = ChildSpec(
            "client",
            ClientActor,
            args=(slot, self.actor_ref),
            restart="transient",
            significant=True,
            shutdown=_stop_time(slot.server),
        )
        spec = ChildSpec(
            slot.key,
            Supervisor,
            kwargs={
                "children": [client],
                "intensity": RestartIntensity(policy.max_restarts, policy.max_seconds),
                "backoff": Backoff(policy.initial, policy.maximum, policy.factor, policy.jitter, policy.reset_after),
                "auto_shutdown": "any_significant",
            },
            restart="temporary",
            shutdown="infinity",
            type="supervisor",
        )
        self._set(slot, "starting", probing=probing, connection=None)
        owner: TaskActorRef[Any] = await self._clients.ask(_start_child(spec), block=False)
        self._owners[slot.key] = slot.owner = owner
        owner.monitor(notify=self.actor_ref)

    def _stop_client(self, slot: Slot, *, start_again: bool) -> anyio.Event:
        """Stop a slot's client in the background: one that will not go must not keep the others' messages waiting."""
        assert self._tasks is not None
        if slot in self._stopping:
            self._stopping[slot].start_again = start_again
            return self._stopping[slot].gone
        self._stopping[slot] = stopping = _Stopping(start_again)
        self._live.pop(slot.key, None)
        self._tasks.start_soon(self._shut_down, slot, self._owners.pop(slot.key, None))
        return stopping.gone

    async def _shut_down(self, slot: Slot, owner: TaskActorRef[Any] | None) -> None:
        if owner is not None:
            await owner.shutdown(timeout=_stop_time(slot.server) + 2.0)
        self.actor_ref.tell(_Stopped(slot))

    async def _stopped(self, slot: Slot) -> None:
        stopping = self._stopping.pop(slot)
        stopping.gone.set()
        if stopping.start_again and self._table.slots.get(slot.key) is slot:
            await self._start_client(slot)

    def _connecting(self, key: SlotKey, client: TaskActorRef[Any]) -> None:
        slot = self._table.slots.get(key)
        if slot is None:
            return
        again = key in self._live
        self._live[key] = client
        client.monitor(notify=self.actor_ref)
        self._set(slot, "starting", connection=None, restarts=slot.restarts + again)

    async def _connected(self, message: Connected) -> None:
        slot = self._table.slots.get(message.key)
        if slot is None or self._live.get(message.key) != message.client:
            return
        connection = message.connection
        catalogue = await self._catalogue(slot.server, connection)
        self._set(slot, "ready", connection=connection, probing=False, last_used=time.monotonic(), **catalogue)
        if slot.server.lazy and slot.server.idle_timeout is not None:
            self._later(slot.server.idle_timeout, _CheckIdle(slot.key, slot))

    async def _tools_changed(self, key: SlotKey, client: TaskActorRef[Any]) -> None:
        slot = self._table.slots.get(key)
        if slot is not None and slot.connection is not None and self._live.get(key) == client:
            self._set(slot, "ready", **await self._catalogue(slot.server, slot.connection))

    async def _catalogue(self, server: Server, connection: Connection) -> dict[str, Any]:
        """What a slot shows of its connection's tools: without those that pinning holds back."""
        pins = await self._pins.check(server, connection.tools)
        held = {finding.tool: finding.reason for finding in pins if finding.held}
        tools = [tool for tool in connection.tools if tool["name"] not in held] if held else connection.tools
        return {"tools": tools, "quarantined": (*connection.quarantined, *held.items()), "pins": pins}

    async def _approve(self, finding: PinFinding) -> None:
        self._known(finding.server_id)
        server = self._table.servers[finding.server_id]
        live = [(slot, slot.connection) for slot in self._slots_of(server.id) if slot.connection is not None]
        await self._pins.approve(server, finding, [tool for _, connection in live for tool in connection.tools])
        for slot, connection in live:
            self._set(slot, "ready", **await self._catalogue(server, connection))

    def _down(self, ref: object, reason: ExitReason) -> None:
        for key, client in self._live.items():
            if client == ref:
                self._client_down(self._table.slots[key], reason)
                return
        for key, owner in list(self._owners.items()):
            if owner == ref:
                del self._owners[key]
                self._live.pop(key, None)
                if reason.exception is not None:
                    self._park(self._table.slots[key])
                return

    def _client_down(self, slot: Slot, reason: ExitReason) -> None:
        if reason.kind == "shutdown" and reason.exception is None:
            # The tree above us goes down, and the client did as it was told.
            self._set(slot, "stopped", connection=None)
            return
        connection = slot.connection
        tail = slot.stderr_tail if connection is None else tuple(connection.stderr_tail)
        self._set(slot, "restarting", connection=None, last_error=_cause(reason), stderr_tail=tail)

    def _park(self, slot: Slot) -> None:
        self._set(slot, "parked", connection=None, probing=False)
        self._later(slot.server.restart.probe_interval, _Probe(slot.key, slot))

    def _check_idle(self, slot: Slot) -> None:
        limit = slot.server.idle_timeout
        if slot.state != "ready" or limit is None:
            return
        left = slot.last_used + limit - time.monotonic()
        if slot.in_flight or left > 0:
            self._later(max(left, 0.01) if not slot.in_flight else limit, _CheckIdle(slot.key, slot))
            return
        self._set(slot, "idle", connection=None)
        self._stop_client(slot, start_again=False)

    def _set(self, slot: Slot, state: str, **changes: Any) -> None:
        before = slot.state
        self._table.update(slot, state=state, **changes)
        if state != before:
            self._on_change(slot, before)
        if state in ("parked", "ready"):
            slot.was_parked = state == "parked"

    def _later(self, seconds: float, message: object) -> None:
        assert self._tasks is not None
        self._tasks.start_soon(self._tell_after, seconds, message)

    async def _tell_after(self, seconds: float, message: object) -> None:
        await anyio.sleep(seconds)
        self.actor_ref.tell(message)


class ClientsSupervisor(DynamicSupervisor):
    """Parent of all client supervisors. It reports to the hub's actor whenever it starts."""

    def __init__(self, hub_name: str, **options: Any) -> None:
        super().__init__(**options)
        self._hub_name = hub_name

    async def on_start(self) -> None:
        await super().on_start()
        hub = self.actor_system.whereis(self._hub_name)
        if hub is not None:
            hub.tell(ClientsUp(self.actor_ref))


def _start_child(spec: ChildSpec) -> ProxyCall:
    # What a proxy would send, without a proxy's look at every attribute of the supervisor.
    return ProxyCall(attr_path=("start_child",), args=(spec,), kwargs={})


def _stop_time(server: Server) -> float:
    # A connection's own close is bounded by twice the grace: EOF, then SIGTERM, then SIGKILL.
    return 2 * server.shutdown_grace + 3.0


def _cause(reason: ExitReason) -> str | None:
    error = reason.exception
    if isinstance(error, ConduitError):
        return error.message
    if error is not None:
        return bounded(f"{type(error).__name__}: {error}", 500)
    return None
