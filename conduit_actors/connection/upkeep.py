"""What goes on beside a connection's calls: is the server still alive?"""

from __future__ import annotations

import math

import anyio
from mcp import ClientSession
from mcp.shared.exceptions import MCPError
from mcp_types import METHOD_NOT_FOUND
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from conduit_actors.connection.records import CallRecord, current_call
from conduit_actors.connection.session import Connection
from conduit_actors.errors import ServerUnavailable

_SUSPICION_PATIENCE = 5.0
"""Seconds for a sign of life after an HTTP exchange broke, or was refused as a whole."""


async def check_health(connection: Connection, session: ClientSession, suspicion: HealthAlarm) -> None:
    """Ask the server for a sign of life, when it was idle for `health_interval` or there is a suspicion.

    One that gives none, or refuses its session, fails the connection. Ends then, or by cancellation.
    """
    server = connection.server
    interval = server.health_interval or math.inf
    while True:
        suspected = await suspicion.wait(interval)
        if not suspected and (connection.busy or connection.silent_for < interval):
            continue
        patience = _SUSPICION_PATIENCE if suspected else interval
        problem: str | None = f"gave no sign of life for {patience:g} s"
        with anyio.move_on_after(patience):
            problem = await _ask(session)
        if problem is not None:
            connection.fail(ServerUnavailable(f"the server {server.id!r} {problem}", server_id=server.id))
            return


async def _ask(session: ClientSession) -> str | None:
    """None if the server answers, an error of its own included; else what is wrong."""
    call = CallRecord()
    token = current_call.set(call)
    try:
        if session.protocol_version in MODERN_PROTOCOL_VERSIONS:
            await session.send_discover(str(session.protocol_version))  # this revision has no ping
        else:
            await session.send_ping()
    except MCPError as error:
        if call.status is not None and error.error.code != METHOD_NOT_FOUND:
            return f"answered HTTP status {call.status} when asked for a sign of life"
    finally:
        current_call.reset(token)
    return None


class HealthAlarm:
    """Wakes the health check before its time."""

    def __init__(self) -> None:
        self._raised = anyio.Event()

    def raise_alarm(self) -> None:
        """Something went wrong that a dead server would explain."""
        self._raised.set()

    async def wait(self, seconds: float) -> bool:
        """Wait; True when the alarm was raised meanwhile."""
        with anyio.move_on_after(seconds):
            await self._raised.wait()
        if not self._raised.is_set():
            return False
        self._raised = anyio.Event()
        return True
