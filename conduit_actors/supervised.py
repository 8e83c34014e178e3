"""`SupervisedSource`: what `Hub` and `Client` share. It runs the supervision tree and is the door to it.

    Supervisor "hub"             rest_for_one
    ├─ HubActor                  the registry, only writer of the server table
    ├─ ClientsSupervisor         one child supervisor per connection, each with one ClientActor
    └─ DynamicSupervisor         one temporary CallWorker per call

The tree runs in tasks of its own actor system, so a hub may be opened in one task and closed in another. Its methods
are for the event loop that it was opened in; from elsewhere they raise at once (`SyncHub` is for other threads).
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import anyio
from pykka import ActorDeadError, ActorRef

from conduit_actors import sources
from conduit_actors.approvals import Approvals, Approver
from conduit_actors.call import CallRequest, CallWorker
from conduit_actors.catalogue import Collisions, build_toolset
from conduit_actors.errors import Cancelled, ConfigurationError, InvalidArguments, ServerUnavailable, Timeout, UnknownTool
from conduit_actors.hooks import Hook
from conduit_actors.hub_actor import ClientsSupervisor, HubActor, Start
from conduit_actors.limits import Limits
from conduit_actors.names import SEPARATOR, sanitise
from conduit_actors.policy import Policy, PolicySource
from conduit_actors.results import ToolResult
from conduit_actors.runtime import Runtime
from conduit_actors.server import Server
from conduit_actors.sources import Kind, OnProgress, Shape
from conduit_actors.status import HubStatus, snapshot
from conduit_actors.table import Slot
from conduit_actors.toolset import ExposedTool, ToolSet
from conduit_supervision import ActorSystem, ChildSpec, DynamicSupervisor, Supervisor


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
        self._runtime = Runtime(name, limits or Limits(), policy, Approvals(on_ask), hooks)
        self._runtime.table.servers.update((server.id, server) for server in servers)
        self._system: ActorSystem | None = None
        self._hub: ActorRef[Any] | None = None
        self._calls: ActorRef[Any] | None = None
        self._toolsets: dict[object, ToolSet] = {}
        self._toolsets_version = -1

    # Life

    async def __aenter__(self) -> Self:
        if self._system is not None:
            raise ConfigurationError(f"{self._name!r} is open already")
        system = ActorSystem()
        await system.__aenter__()
        self._system = system
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
            self._runtime.closed()

    async def _start_tree(self, system: ActorSystem) -> None:
        hub_name, calls_name = "hub", "calls"
        root = system.start(
            Supervisor,
            children=[
                ChildSpec(hub_name, HubActor, args=(self._runtime.table, self._runtime.state_changed), name=hub_name),
                ChildSpec("clients", ClientsSupervisor, args=(hub_name,), type="supervisor", shutdown="infinity"),
                ChildSpec(calls_name, DynamicSupervisor, type="supervisor", shutdown=5.0, name=calls_name),
            ],
            strategy="rest_for_one",
        )
        await root.started()
        self._runtime.attach(system)

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
        self._runtime.set_policy(policy)
        self._toolsets_version = -1

    def status(self) -> HubStatus:
        """What each server is doing. Cheap, and safe from any thread."""
        zombies = 0 if self._system is None else len(self._system.zombies())
        return snapshot(self._name, self._runtime.table, warnings=self._runtime.warnings(), zombies=zombies)
