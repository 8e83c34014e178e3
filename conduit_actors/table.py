"""The server table: what every call needs to know of a server, read without a message.

As an ETS table in OTP it has one writer, the `HubActor`, and any number of readers on the same event loop. A reader
that finds no connection waits on the slot's `changed` event; each write wakes all waiters.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import anyio

from conduit_actors.catalogue import ServerTools
from conduit_actors.errors import ServerUnavailable
from conduit_actors.pinning import PinFinding
from conduit_actors.server import Server

if TYPE_CHECKING:
    from conduit_actors.connection import Connection

ServerState = Literal["idle", "starting", "ready", "restarting", "parked", "stopped"]
"""idle: lazy and not asked for; restarting: crashed, will be started again; parked: only a slow probe tries it."""

SlotKey = tuple[str, str | None]
"""Server id, and the principal for a server with one connection per principal."""


@dataclass(slots=True, eq=False)
class Slot:
    """One connection's row.

    Invariant: `connection` is set exactly while `state` is "ready".

    Attributes:
        pins: tools whose definition is not the approved one; those that are held are among the quarantined.
        restarts: how often the connection was opened again since the server was added or restarted by hand.
        last_error: why it went down last, in one line; kept after it is up again.
        probing: the next attempt is a parked server's probe; its failure parks again.
        was_parked: it was parked and has not been ready since.
        owner: the supervisor of its client.
        since: monotonic time of the last change of state, in seconds.
        last_used: monotonic time of the last call's start or end.
    """

    server: Server
    principal: str | None = None
    state: ServerState = "idle"
    connection: Connection | None = None
    tools: Sequence[Mapping[str, Any]] = ()
    tool_names: frozenset[str] = frozenset()
    quarantined: Sequence[tuple[str, str]] = ()
    pins: Sequence[PinFinding] = ()
    restarts: int = 0
    last_error: str | None = None
    stderr_tail: tuple[str, ...] = ()
    probing: bool = False
    was_parked: bool = False
    owner: Any = field(default=None, repr=False)
    in_flight: int = 0
    since: float = field(default_factory=time.monotonic)
    last_used: float = field(default_factory=time.monotonic)
    changed: anyio.Event = field(default_factory=anyio.Event)

    @property
    def key(self) -> SlotKey:
        return (self.server.id, self.principal)

    @property
    def present_state(self) -> ServerState:
        """`state`, but of a connection that ended a moment ago, which the hub has not heard of yet, "restarting"."""
        if self.connection is not None and self.connection.ending.is_set():
            return "restarting"
        return self.state

    @property
    def settled(self) -> bool:
        """Nothing is under way that a caller could wait for."""
        return self.present_state in ("ready", "parked", "stopped", "idle")

    def unavailable(self) -> ServerUnavailable:
        """The error for a call that finds the server in its present state."""
        text = f"the server {self.server.id!r} is not available ({self.present_state})"
        if self.last_error:
            text += f": {self.last_error}"
        return ServerUnavailable(text, server_id=self.server.id)

    def live(self, lost: Connection | None = None) -> Connection | None:
        """The live connection, if there is one now. `lost`: see `wait_ready`."""
        connection = self.connection
        if connection is None or connection is lost or connection.ending.is_set():
            return None
        return connection

    async def wait_ready(self, timeout: float, *, lost: Connection | None = None) -> Connection:
        """The live connection; waits up to `timeout` seconds for one that is starting or restarting.

        `lost` is one that the caller found broken, which the hub may not have heard of yet: it is not given again.

        Raises:
            ServerUnavailable: the server is parked or stopped, or did not come up in time.
        """
        with anyio.move_on_after(timeout):
            while True:
                if (connection := self.live(lost)) is not None:
                    return connection
                if self.state in ("parked", "stopped"):
                    raise self.unavailable()
                # An ended connection whose loss the hub has not yet heard of: the hub's next write wakes us.
                await self.changed.wait()
        raise self.unavailable()


class ServerTable:
    """All slots, in the order in which their servers were added, and a version that grows with each change."""

    def __init__(self) -> None:
        self.slots: dict[SlotKey, Slot] = {}
        self.servers: dict[str, Server] = {}
        self.version = 0
        self.changed = anyio.Event()

    def __iter__(self) -> Iterator[Slot]:
        return iter(self.slots.values())

    def get(self, server_id: str, principal: str | None) -> Slot | None:
        """The slot that serves this principal's calls to a server; None when there is none (yet)."""
        server = self.servers.get(server_id)
        if server is None:
            return None
        return self.slots.get((server_id, principal if server.per_principal else None))

    def update(self, slot: Slot, **changes: Any) -> None:
        """Write some fields of a slot and wake its waiters. Only the hub's actor calls this."""
        if "state" in changes and changes["state"] != slot.state:
            slot.since = time.monotonic()
        for name, value in changes.items():
            setattr(slot, name, value)
        if "tools" in changes:
            slot.tool_names = frozenset(tool["name"] for tool in slot.tools)
        self.touch()
        slot.changed.set()
        slot.changed = anyio.Event()

    def touch(self) -> None:
        """Count a change of the catalogue and wake those who wait for any."""
        self.version += 1
        self.changed.set()
        self.changed = anyio.Event()

    def server_tools(self, principal: str | None) -> list[ServerTools]:
        """Each server's tools as this principal sees them, in the order of the servers."""
        entries: list[ServerTools] = []
        for server_id, server in self.servers.items():
            slot = self.get(server_id, principal)
            if slot is None:
                continue
            # An idle server's tools are known from its last connection; a call starts it again.
            available = slot.state in ("ready", "idle")
            entries.append(ServerTools(server, slot.tools, slot.quarantined, available))
        return entries
