"""`HubStatus`: what a hub's servers are doing, as plain data. It holds no secret."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from conduit_actors.pinning import PinFinding
from conduit_actors.server import public_url
from conduit_actors.table import ServerState, ServerTable, Slot


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStatus:
    """One connection.

    Attributes:
        state: idle, starting, ready, restarting, parked or stopped.
        since: seconds in this state.
        restarts: how often it was started again.
        last_error: why it went down last, in one line.
        tools: how many tools it has.
        quarantined: tools that are not valid MCP, and why.
        pins: tools whose definition is not the approved one, each with the difference.
        pid: of a stdio server's process.
        stderr: the last lines that a stdio server wrote there.
        in_flight: calls that run on it now.
    """

    id: str
    principal: str | None = None
    state: ServerState = "idle"
    since: float = 0.0
    restarts: int = 0
    last_error: str | None = None
    tools: int = 0
    quarantined: tuple[tuple[str, str], ...] = ()
    pins: tuple[PinFinding, ...] = ()
    transport: str = ""
    protocol_version: str | None = None
    pid: int | None = None
    stderr: tuple[str, ...] = ()
    in_flight: int = 0


@dataclass(frozen=True, slots=True)
class HubStatus(Mapping[str, ServerStatus]):
    """All servers by id, in order. Connections of single principals are in `tenants`.

    Attributes:
        name: the hub's.
        warnings: what the host should look at, e.g. policy rules that can never match.
        zombies: workers that were killed and have not ended yet.
    """

    name: str
    servers: Mapping[str, ServerStatus]
    tenants: tuple[ServerStatus, ...] = ()
    warnings: tuple[str, ...] = ()
    zombies: int = 0

    def __getitem__(self, server_id: str) -> ServerStatus:
        return self.servers[server_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self.servers)

    def __len__(self) -> int:
        return len(self.servers)

    @property
    def ready(self) -> bool:
        """Every server that should be connected is."""
        return all(server.state in ("ready", "idle") for server in self.servers.values())


def snapshot(name: str, table: ServerTable, *, warnings: tuple[str, ...] = (), zombies: int = 0) -> HubStatus:
    """The present state of a server table."""
    servers: dict[str, ServerStatus] = {}
    tenants: list[ServerStatus] = []
    for server_id, server in table.servers.items():
        slot = table.slots.get((server_id, None))
        servers[server_id] = _describe(slot) if slot is not None else ServerStatus(id=server.id)
    for slot in table:
        if slot.principal is not None:
            tenants.append(_describe(slot))
    return HubStatus(name, servers, tuple(tenants), warnings, zombies)


def _describe(slot: Slot) -> ServerStatus:
    connection = slot.connection
    server = slot.server
    transport = f"http {public_url(server.url)}" if server.url else "stdio" if server.command else "in-process"
    return ServerStatus(
        id=server.id,
        principal=slot.principal,
        state=slot.present_state,
        since=time.monotonic() - slot.since,
        restarts=slot.restarts,
        last_error=slot.last_error,
        tools=len(slot.tools),
        quarantined=tuple(slot.quarantined),
        pins=tuple(slot.pins),
        transport=transport,
        protocol_version=None if connection is None else connection.protocol_version,
        pid=None if connection is None else connection.pid,
        stderr=tuple(slot.stderr_tail if connection is None else connection.stderr_tail),
        in_flight=slot.in_flight,
    )
