"""`SupervisedSource`: what `Hub` and `Client` share. It runs the supervision tree and is the door to it.

    Supervisor "hub"             rest_for_one
    ├─ HubActor                  the registry, only writer of the server table
    ├─ ClientsSupervisor         one child supervisor per connection, each with one ClientActor
    └─ DynamicSupervisor         one temporary CallWorker per call

The tree runs in tasks of its own actor system, so a hub may be opened in one task and closed in another. Its methods
are for the event loop that it was opened in; from elsewhere they raise at once (`SyncHub` is for other threads).
"""

from __future__ import annotations

import dataclasses
import itertools
import time
import uuid
from collections.abc import Collection, Mapping, Sequence
from os import PathLike
from types import TracebackType
from typing import Any, Self

import anyio
from pykka import ActorDeadError

from conduit_actors import sources
from conduit_actors.adapters.facade import Provider
from conduit_actors.approval_store import ApprovalStore, Remembered
from conduit_actors.approvals import Approvals, Approver
from conduit_actors.call import CallRequest, CallWorker, error_type
from conduit_actors.catalogue import Collisions, build_toolset
from conduit_actors.conversation import Conversation
from conduit_actors.errors import (
    Cancelled,
    ConduitError,
    ConfigurationError,
    Denied,
    ServerUnavailable,
    Timeout,
    UnknownTool,
)
from conduit_actors.hooks import Hook
from conduit_actors.hub_actor import ApproveTool, ClientsSupervisor, HubActor, Start
from conduit_actors.json_values import plain_arguments
from conduit_actors.limits import Limits
from conduit_actors.names import SEPARATOR, sanitise
from conduit_actors.pinning import PinFinding
from conduit_actors.policy import Policy, PolicySource
from conduit_actors.results import ToolResult
from conduit_actors.runtime import Runtime
from conduit_actors.secrets import redactor_for
from conduit_actors.server import Server
from conduit_actors.sources import Kind, OnProgress, Shape
from conduit_actors.status import HubStatus, snapshot
from conduit_actors.table import Slot
from conduit_actors.toolset import ExposedTool, ToolSet
from conduit_supervision import ActorSystem, ChildSpec, DynamicSupervisor, Supervisor, TaskActorRef
from conduit_telemetry import CallSpan, Redactor, names

_HUB, _CALLS = "hub", "calls"
_TOOLSETS_KEPT = 1_000
_CALL_PREFIX = f"call_{uuid.uuid4().hex[:12]}_"
_call_numbers = itertools.count(1)


class WrongLoop(ConfigurationError, RuntimeError):
    """A hub was used from another event loop or thread than its own."""


class SupervisedSource:
    """A named set of supervised servers and the governed way to call their tools. Use `Hub` or `Client`."""

    _kind: Kind
    _namespaced: bool

    def __init__(
        self,
        name: str,
        *,
        servers: Sequence[Server],
        policy: PolicySource | None,
        on_ask: Approver | None = None,
        approval_store: Remembered | str | PathLike[str] | None = None,
        hooks: Sequence[Hook] = (),
        limits: Limits | None = None,
        collisions: Collisions = "rename",
    ) -> None:
        if not name:
            raise ConfigurationError("a hub or client needs a name")
        ids = [server.id for server in servers]
        for server_id in ids:
            if ids.count(server_id) > 1:
                raise ConfigurationError(f"two servers have the id {server_id!r}")
        self._name = name
        self._collisions: Collisions = collisions
        limits = limits or Limits()
        always = ApprovalStore(approval_store) if isinstance(approval_store, (str, PathLike)) else approval_store
        approvals = Approvals(on_ask, always, timeout=limits.approval_timeout)
        self._runtime = Runtime(name, limits, policy, approvals, hooks)
        self._runtime.table.servers.update((server.id, server) for server in servers)
        self._system: ActorSystem | None = None
        self._toolsets: dict[object, ToolSet] = {}
        self._toolsets_version = -1
        self._personal = False

    # Life

    async def __aenter__(self) -> Self:
        if self._system is not None:
            raise ConfigurationError(f"{self._name!r} is open already")
        system = ActorSystem()
        await system.__aenter__()
        self._system = system
        self._runtime.system = system
        system.subscribe(self._runtime.actor_event)
        try:
            await self._start_tree(system)
        except BaseException:
            await self.close()
            raise
        sources.register(self._kind, self)
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop all calls and close all connections. From any task of the loop; a second time does nothing."""
        sources.unregister(self._kind, self)
        system, self._system = self._system, None
        if system is not None:
            await system.__aexit__(None, None, None)

    async def _start_tree(self, system: ActorSystem) -> None:
        runtime = self._runtime
        root = system.start(
            Supervisor,
            children=[
                ChildSpec(_HUB, HubActor, args=(runtime.table, runtime.state_changed, runtime.pins), name=_HUB),
                ChildSpec("clients", ClientsSupervisor, args=(_HUB,), type="supervisor", shutdown="infinity"),
                ChildSpec(_CALLS, DynamicSupervisor, type="supervisor", shutdown=5.0, name=_CALLS),
            ],
            strategy="rest_for_one",
        )
        await root.started()

    # Looking

    @property
    def name(self) -> str:
        """The name by which the adapters find this source."""
        return self._name

    @property
    def limits(self) -> Limits:
        """The bounds that calls run under."""
        return self._runtime.limits

    @property
    def policy(self) -> PolicySource | None:
        """The policy, or the callable that gives each principal's."""
        return self._runtime.policy

    def set_policy(self, policy: PolicySource | None) -> None:
        """Replace the policy; calls that were admitted before keep the decision they got."""
        self._runtime.policy = policy
        self._toolsets_version = -1

    def status(self) -> HubStatus:
        """What each server is doing. Cheap, and safe from any thread."""
        zombies = 0 if self._system is None else len(self._system.zombies())
        return snapshot(self._name, self._runtime.table, warnings=self._runtime.warnings(), zombies=zombies)

    async def wait_ready(self, timeout: float | None = None) -> HubStatus:
        """Wait until every server is connected or parked, at most `timeout` seconds, and give the status.

        It never raises for a server that is down. A lazy server that nobody asked for counts as done.
        """
        table = self._runtime.table
        self._check()
        with anyio.move_on_after(timeout):
            while not all(slot.settled for slot in table):
                await table.changed.wait()
        return self.status()

    async def list_tools(self, principal: str | None = None) -> ToolSet:
        """The tools that this principal can be offered now: of live servers, without what the policy never allows.

        The same object comes back as long as nothing has changed. Lazy servers are started for it.
        """
        self._check()
        await self._wake_lazy(principal)
        return self._toolset(principal, live=True)

    def known_tools(self, principal: str | None = None) -> ToolSet:
        """All tools that are known, those of servers that are down and those that the policy denies included.

        For routing a call whose offer is not at hand; what it may do, the policy decides as for any call.
        """
        self._check()
        return self._toolset(principal, live=False)

    async def approve_tool(self, finding: PinFinding) -> None:
        """Approve a tool that pinning holds back or reports: exactly the definition that the finding, one of
        `HubStatus`'s ``[server_id].pins``, is about.

        Raises:
            ConfigurationError: the tool is gone or changed again since, or its server does not pin its tools.
        """
        await self._hub_ref().ask(ApproveTool(finding), block=False)

    def _toolset(self, principal: str | None, *, live: bool) -> ToolSet:
        """`live` leaves out the tools of servers that are down; without it they are there, for routing."""
        runtime, table = self._runtime, self._runtime.table
        if self._toolsets_version != table.version:
            self._toolsets.clear()
            self._toolsets_version = table.version
            # One object for all principals, where neither the policy nor a connection depends on who asks.
            self._personal = (
                callable(runtime.policy)
                or _looks_at_principal(runtime.policy)
                or any(server.per_principal for server in table.servers.values())
            )
        key = (live, principal if self._personal else None)
        toolset = self._toolsets.get(key)
        if toolset is None:
            if len(self._toolsets) > _TOOLSETS_KEPT:
                self._toolsets.clear()
            policy = runtime.policy_of(principal)

            def offered(server_id: str, tool: str) -> str | None:
                if policy is None or not live:
                    return None
                declared = runtime.annotations(table.servers[server_id], tool)
                allowed = policy.may_allow(server_id, tool, principal, annotations=declared)
                return None if allowed else "the policy never allows it"

            entries = table.server_tools(principal)
            if not live:
                entries = [dataclasses.replace(entry, available=True) for entry in entries]
            toolset = build_toolset(entries, namespaced=self._namespaced, collisions=self._collisions, offered=offered)
            self._toolsets[key] = toolset
        return toolset

    async def _wake_lazy(self, principal: str | None) -> None:
        """Start the lazy servers whose tools are not known, and wait a bounded time for them."""
        runtime = self._runtime
        for server in runtime.table.servers.values():
            slot = runtime.table.get(server.id, principal)
            if slot is None or (slot.state == "idle" and not slot.tools):
                self._start_slot(server, principal)
        with anyio.move_on_after(runtime.limits.ready_timeout):
            while any(self._still_waking(server, principal) for server in runtime.table.servers.values()):
                await runtime.table.changed.wait()

    def _still_waking(self, server: Server, principal: str | None) -> bool:
        slot = self._runtime.table.get(server.id, principal)
        if not (server.lazy or server.per_principal):
            return False
        return slot is None or (not slot.tools and slot.state in ("idle", "starting"))

    def _start_slot(self, server: Server, principal: str | None) -> None:
        self._hub_ref().tell(Start((server.id, principal if server.per_principal else None)))

    # Calling

    async def conversation(self, provider: Provider, **options: Any) -> Conversation:
        """Tools, taint and options of one model's conversation, kept from turn to turn; see `Conversation.start`."""
        return await Conversation.start(self, provider, **options)

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        principal: str | None = None,
        assigns: Mapping[str, Any] | None = None,
        taint: Collection[str] = (),
        timeout: float | None = None,
        call_timeout: float | None = None,
        meta: Mapping[str, Any] | None = None,
        on_progress: OnProgress | None = None,
        toolset: ToolSet | None = None,
        shape: Shape = "llm",
        call_id: str | None = None,
    ) -> ToolResult:
        """Run one governed call and give the tool's answer, which may itself say that the tool failed.

        Args:
            name: the exposed name.
            principal: on whose behalf; for policy, approvals, fairness and per-principal connections.
            assigns: the host's own values, for hooks and the approver; never sent to the server.
            taint: servers whose output is in the model's context.
            timeout: seconds for the request; a progress report starts them again. None: the server's setting.
            call_timeout: seconds for everything, approval and hooks included. None: `Limits.call_timeout`.
            meta: sent to the server in ``_meta``.
            on_progress: called with (progress, total, message).
            toolset: what the model was offered; the name is looked up there only. None: all that is known now.
            shape: "llm" shapes the result for a model; None leaves it as it came.
            call_id: the model's id of the call.

        Raises:
            ConduitError: the call has no answer; `code` says why.
        """
        self._check()
        seconds = self.limits.call_timeout if call_timeout is None else call_timeout
        if seconds <= 0:
            raise ConfigurationError("call_timeout must be greater than 0")
        started = time.perf_counter()
        deadline = anyio.current_time() + seconds
        tool = await self._resolve(name, toolset, principal)
        request = CallRequest(
            call_id=call_id or f"{_CALL_PREFIX}{next(_call_numbers)}",
            tool=tool,
            arguments=plain_arguments(arguments),
            principal=principal,
            assigns=dict(assigns) if assigns else {},
            taint=frozenset(taint),
            timeout=timeout,
            deadline=deadline,
            started=started,
            meta=meta,
            on_progress=on_progress,
            shape=shape,
        )
        return await self._run(request, seconds)

    async def _run(self, request: CallRequest, seconds: float) -> ToolResult:
        """One worker for one call. Whatever the worker does, the answer is here at the deadline."""
        tool = request.tool
        span = CallSpan(
            name=tool.name,
            server_id=tool.server_id,
            tool=tool.tool,
            call_id=request.call_id,
            taint=request.taint,
            principal=request.principal,
        )
        if span.captures:
            span.arguments(request.arguments, self._redactor(tool.server_id))
        worker: TaskActorRef[CallWorker] | None = None
        try:
            with anyio.CancelScope(deadline=request.deadline):
                with span.current():
                    worker, reply = self._calls().run_worker(CallWorker(self._runtime, span), request)
                result: ToolResult = await reply
                if span.captures:
                    span.result(list(result.content), self._redactor(tool.server_id))
                span.end(
                    names.TOOL_ERROR if result.is_error else "ok",
                    error_type=names.TOOL_ERROR if result.is_error else None,
                    attempts=result.attempts,
                    truncated=result.truncated,
                    result_bytes=_size(result),
                )
                return result
            text = f"the call of {tool.name} did not end within {seconds:g} s and was stopped"
            raise Timeout(text, server_id=tool.server_id, tool=tool.tool)
        except ConduitError as error:
            span.end(error.code, error_type=error_type(error), description=error.message)
            raise
        except ActorDeadError as error:
            span.end("cancelled", error_type="killed")
            text = f"the call of {tool.name} was stopped: {self._name!r} is closing"
            raise Cancelled(text, server_id=tool.server_id, tool=tool.tool) from error
        except BaseException as error:
            kind = "cancelled" if isinstance(error, anyio.get_cancelled_exc_class()) else type(error).__name__
            span.end("cancelled" if kind == "cancelled" else "error", error_type=kind)
            raise
        finally:
            if worker is not None and worker.is_alive():
                worker.kill()

    def _redactor(self, server_id: str) -> Redactor | None:
        server = self._runtime.table.servers.get(server_id)
        return None if server is None else redactor_for(server)

    async def _resolve(self, name: str, toolset: ToolSet | None, principal: str | None) -> ExposedTool:
        """The tool behind an exposed name.

        Raises:
            UnknownTool: the model was not offered such a tool.
            ServerUnavailable: it may be a tool of a server that is not up.
        """
        if toolset is not None:
            tool = toolset.get(name)
            if tool is None and (denied := toolset.denied(name)) is not None:
                raise Denied(f"the call of {name} is not allowed: {denied.reason}", tool=denied.tool)
        else:
            tool = self._toolset(principal, live=False).get(name)
            if tool is None:
                tool = await self._resolve_on_waking(name, principal)
        if tool is None:
            raise UnknownTool(f"there is no tool {name[:200]!r}")
        slot = self._runtime.table.get(tool.server_id, principal)
        server = self._runtime.table.servers.get(tool.server_id)
        if server is not None and (slot is None or slot.state == "idle"):
            self._start_slot(server, principal)
            await self._until_there(server, principal)
        return tool

    async def _resolve_on_waking(self, name: str, principal: str | None) -> ExposedTool | None:
        """A name that is not known may belong to a server whose tools were never listed: wait for that one."""
        for server in list(self._runtime.table.servers.values()):
            if self._namespaced and not name.startswith(sanitise(server.id + SEPARATOR)):
                continue
            slot = self._runtime.table.get(server.id, principal)
            if slot is not None and slot.tools:
                continue
            if slot is None or slot.state == "idle":
                self._start_slot(server, principal)
            slot = await self._until_there(server, principal)
            if slot is None:
                continue
            await slot.wait_ready(self.limits.ready_timeout)
            tool = self._toolset(principal, live=False).get(name)
            if tool is not None:
                return tool
        return None

    async def _until_there(self, server: Server, principal: str | None) -> Slot | None:
        table = self._runtime.table
        with anyio.move_on_after(self.limits.ready_timeout):
            while (slot := table.get(server.id, principal)) is None or slot.state == "idle":
                await table.changed.wait()
            return slot
        return None

    # The way into the tree

    def _check(self) -> ActorSystem:
        """Raise at once, with a clear text, where a call could only hang or fail obscurely."""
        if self._system is None:
            raise ConfigurationError(f"{self._name!r} is not open: use `async with`")
        if not self._system.in_loop():
            raise WrongLoop(f"{self._name!r} was opened on another event loop or thread; call it there, or use SyncHub")
        return self._system

    def _hub_ref(self) -> TaskActorRef[Any]:
        hub = self._check().whereis(_HUB)
        if hub is None:
            raise ServerUnavailable(f"{self._name!r} is restarting its registry")
        return hub

    def _calls(self) -> DynamicSupervisor:
        ref = self._check().whereis(_CALLS)
        supervisor = None if ref is None else ref.actor()
        if not isinstance(supervisor, DynamicSupervisor) or not supervisor.actor_ref.is_alive():
            raise Cancelled(f"{self._name!r} is closing")
        return supervisor


def _size(result: ToolResult) -> int:
    """About how many bytes the result's text and data are."""
    return sum(len(value) for block in result.content for value in block.values() if isinstance(value, str))


def _looks_at_principal(policy: PolicySource | None) -> bool:
    return isinstance(policy, Policy) and any(
        rule.principal is not None for rule in (*policy.allow, *policy.ask, *policy.deny)
    )
