"""`open_connection`: from a `Server` to an open `Connection`.

The SDK's client lives in a task of its own, from its beginning to its end. So whatever happens in there (a transport's
task group that cancels its host, an exception group) reaches the owner in one form only: the connection has a
`failure` and is `closed`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any, cast

import anyio
import mcp_types as types
from anyio.abc import TaskGroup
from mcp import Client
from mcp.server import Server as LowLevelServer
from mcp.server.mcpserver import MCPServer
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from conduit_actors.connection.callbacks import host_callback, log_messages, roots_of, wanted_level
from conduit_actors.connection.causes import leaves, unavailable
from conduit_actors.connection.dispatcher import ConnectionDispatcher
from conduit_actors.connection.http import HttpTransport
from conduit_actors.connection.providers import call
from conduit_actors.connection.quiet import redacted_logs
from conduit_actors.connection.session import Connection, is_loss
from conduit_actors.connection.stdio import StdioTransport
from conduit_actors.connection.upkeep import HealthAlarm, check_health
from conduit_actors.errors import ServerUnavailable
from conduit_actors.server import Server

_EXIT_STATUS_SECONDS = 0.3
_CLOSE_SECONDS = 5.0
"""For everything at close but the stopping of a process, which has bounds of its own."""


@asynccontextmanager
async def open_connection(
    server: Server,
    *,
    principal: str | None = None,
    on_tools_changed: Callable[[], None] = lambda: None,
    on_closed: Callable[[], None] = lambda: None,
) -> AsyncGenerator[Connection, None]:
    """Open a connection: spawn or connect, shake hands, read the first tool list, all within `connect_timeout`.

    To be entered and left in one task. The callbacks are called on the event loop: `on_tools_changed` after the list
    was read again and differs, `on_closed` when an open connection ended without being left; `failure` says why.

    Args:
        principal: given to the server's callables for headers, tokens and transports that take a parameter.

    Raises:
        ServerUnavailable: it could not be opened; one line with the server and the cause, the original chained.
    """
    deadline = anyio.current_time() + server.connect_timeout

    def new_life(protocol: str) -> _Life:
        try:
            return _Life(server, protocol, deadline, principal, on_tools_changed, on_closed)
        except Exception as refused:  # the SDK refuses an option, or a host's own transport cannot be made
            raise unavailable(server, refused) from refused

    life = new_life(server.protocol)
    error: Exception | None = None
    async with anyio.create_task_group() as tasks:
        try:
            tasks.start_soon(life.run)
            await life.wait_opened()
            if life.died_of_probe:
                life = new_life("legacy")
                tasks.start_soon(life.run)
                await life.wait_opened()
            yield life.opened()
        except Exception as raised:  # noqa: BLE001 - raised again below
            # Out of the task group first, which would wrap it.
            error = raised
        finally:
            life.leave.set()
            if not life.ready:
                life.scope.cancel()
            with anyio.move_on_after(_CLOSE_SECONDS + 3 * server.shutdown_grace, shield=True):
                await life.over.wait()
            life.scope.cancel()
    if error is not None:
        raise error


class _Life:
    """One connection's task.

    Attributes:
        leave: set by the owner, who wants to close the connection.
        over: set when everything is closed.
        died_of_probe: a program ended before its first answer. Some older servers do so when the first message is not
            ``initialize``.
        scope: cancels the task. It is shielded: a cancelled owner still closes in good order, within bounds.
    """

    def __init__(
        self,
        server: Server,
        protocol: str,
        deadline: float,
        principal: str | None,
        on_tools_changed: Callable[[], None],
        on_closed: Callable[[], None],
    ) -> None:
        self.leave = anyio.Event()
        self.over = anyio.Event()
        self.died_of_probe = False
        self.scope = anyio.CancelScope(shield=True)
        self._server = server
        self._protocol = protocol
        self._deadline = deadline
        self._on_tools_changed = on_tools_changed
        self._on_closed = on_closed
        self._ready = anyio.Event()
        self._alarm = HealthAlarm()
        self._transport, target = _target(server, principal)
        self.connection = Connection(server, principal, self._transport, _first_version(server))
        self._client = Client(
            target,
            mode=protocol,
            client_info=types.Implementation(name="conduit-actors", version=version("conduit-actors")),
            cache=None,
            logging_callback=log_messages(server),
            log_level=wanted_level(server),
            message_handler=self.connection.handle_message,
            elicitation_callback=host_callback(server.elicitation),
            sampling_callback=host_callback(server.sampling),
            list_roots_callback=roots_of(server),
        )
        _instrument(self._client, self.connection, marks_sent=self._transport is not None)
        if isinstance(self._transport, HttpTransport):
            self._transport.on_failure = self._transport_failed
            self._transport.on_doubt = self._alarm.raise_alarm

    @property
    def ready(self) -> bool:
        """The opening is over, well or not."""
        return self._ready.is_set()

    async def wait_opened(self) -> None:
        """Wait for the end of the opening; when it failed, for the end of everything."""
        await self._ready.wait()

    def opened(self) -> Connection:
        """The open connection.

        Raises:
            ServerUnavailable: the opening failed.
        """
        if self.connection.failure is not None and self.connection.closed.is_set():
            raise self.connection.failure
        return self.connection

    async def run(self) -> None:
        """The whole life. Never raises."""
        with self.scope, redacted_logs(self.connection):
            await self._run()

    async def _run(self) -> None:
        connection = self.connection
        try:
            with anyio.CancelScope(deadline=self._deadline) as scope:
                async with self._client, anyio.create_task_group() as tasks:
                    connection.attach(self._client.session)
                    await connection.tool_list.read(self._client.session)
                    scope.deadline = float("inf")
                    if isinstance(self._transport, HttpTransport):
                        self._transport.opened = True
                    self._keep_up(tasks)
                    self._ready.set()
                    await self._end()
                    tasks.cancel_scope.cancel()
            if scope.cancelled_caught:
                connection.fail(unavailable(self._server, TimeoutError(), stderr=connection.stderr_tail))
        except Exception as error:  # noqa: BLE001 - the one edge where any failure in there becomes the connection's
            is_program = isinstance(self._transport, StdioTransport)
            self.died_of_probe = is_program and not connection.answered and self._protocol == "auto" and _is_lost(error)
            connection.fail(unavailable(self._server, self._telling(error), stderr=connection.stderr_tail))
        finally:
            opened = self._ready.is_set()
            if not connection.closed.is_set():
                connection.ending.set()
                connection.closed.set()
                if opened and not self.leave.is_set():
                    self._on_closed()
            connection.release_callers()
            self._ready.set()
            self.over.set()

    def _keep_up(self, tasks: TaskGroup) -> None:
        """Start what goes on beside the calls."""
        connection, session = self.connection, self._client.session
        tasks.start_soon(self._until_left)
        tasks.start_soon(connection.tool_list.follow, session, self._on_tools_changed)
        if connection.protocol_version in MODERN_PROTOCOL_VERSIONS and self._tools_may_change():
            tasks.start_soon(connection.tool_list.subscribe, session)
        if not isinstance(self._server.transport, (LowLevelServer, MCPServer)):
            tasks.start_soon(check_health, connection, session, self._alarm)

    def _tools_may_change(self) -> bool:
        support = self._client.server_capabilities.tools
        # Without a probe the server was not asked for its capabilities.
        return self._protocol in MODERN_PROTOCOL_VERSIONS or (support is not None and support.list_changed is True)

    async def _until_left(self) -> None:
        await self.leave.wait()
        self.connection.ending.set()

    async def _end(self) -> None:
        """Wait for the end; unless the owner leaves, find out why it ended, and tell."""
        connection = self.connection
        await connection.ending.wait()
        if self.leave.is_set():
            return
        if connection.failure is None:
            if isinstance(self._transport, StdioTransport):
                await self._transport.explain_end(_EXIT_STATUS_SECONDS)
            known = None if self._transport is None else self._transport.failure
            text = f"the server {self._server.id!r} closed the connection"
            error = known or ServerUnavailable(text, server_id=self._server.id)
            connection.fail(unavailable(self._server, error, stderr=connection.stderr_tail))
        connection.closed.set()
        self._on_closed()

    def _telling(self, error: Exception) -> Exception:
        """The transport knows better than the SDK why a connection ended."""
        known = None if self._transport is None else self._transport.failure
        if known is None:
            return error
        lost = _is_lost(error)
        return known if lost or isinstance(self._transport, HttpTransport) else error

    def _transport_failed(self) -> None:
        assert self._transport is not None
        assert self._transport.failure is not None
        self.connection.fail(self._transport.failure)


def _is_lost(error: Exception) -> bool:
    return any(isinstance(cause, MCPError) and is_loss(cause) for cause in leaves(error))


def _target(server: Server, principal: str | None) -> tuple[StdioTransport | HttpTransport | None, Any]:
    """The transport object, if it is one of ours, and what `mcp.Client` is to connect to."""
    if server.command is not None:
        transport = StdioTransport(server)
        return transport, transport
    if server.url is not None:
        transport = HttpTransport(server, principal)
        return transport, transport
    given: Any = server.transport
    if callable(given) and not isinstance(given, (LowLevelServer, MCPServer)) and not hasattr(given, "__aenter__"):
        given = call(given, principal)
    return None, cast("Any", given)


def _first_version(server: Server) -> str:
    return server.protocol if server.protocol in MODERN_PROTOCOL_VERSIONS else types.LATEST_PROTOCOL_VERSION


def _instrument(client: Client, connection: Connection, *, marks_sent: bool) -> None:
    """Put our dispatcher around the SDK's. `mcp.Client` (2.3) has no public way to do it; a test pins this one."""
    connect = client._connect  # pyright: ignore[reportPrivateUsage]

    async def connect_observed(stack: Any, mode: Any, raise_exceptions: bool) -> Any:
        inner = await connect(stack, mode, raise_exceptions)
        if isinstance(inner, JSONRPCDispatcher):
            inner.on_stream_exception = _ignore
        return ConnectionDispatcher(inner, connection, marks_sent=marks_sent)

    client._connect = connect_observed  # pyright: ignore[reportPrivateUsage]


async def _ignore(error: Exception) -> None:
    """Transport noise; the end of a connection is heard of in another way."""
