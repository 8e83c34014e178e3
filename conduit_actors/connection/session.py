"""`Connection`: one MCP session, from open to closed, and `open_connection`.

It knows no actors and restarts nothing. It is opened and closed in one task; its calls may come from any task of the
same event loop.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import json
import logging
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import anyio
import mcp_types as types
from anyio.abc import TaskGroup
from mcp import Client
from mcp.client.subscriptions import SubscriptionLost, listen
from mcp.server import Server as LowLevelServer
from mcp.server.mcpserver import MCPServer
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp_types import HEADER_MISMATCH, REQUEST_TIMEOUT
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import TypeAdapter, ValidationError

from conduit_actors.connection.causes import unavailable
from conduit_actors.connection.dispatcher import ConnectionDispatcher
from conduit_actors.connection.http import HttpTransport, SendMark, current_mark
from conduit_actors.connection.stdio import StdioTransport
from conduit_actors.errors import OutcomeUnknown, ProtocolError, ServerUnavailable, Timeout
from conduit_actors.secrets import redactor_for
from conduit_actors.server import Server
from conduit_actors.sources import OnProgress
from conduit_telemetry import names

_RAW: TypeAdapter[dict[str, Any]] = TypeAdapter(dict[str, Any])
_LIST_DEBOUNCE = 0.1
_LISTEN_AGAIN = 1.0
_MAX_INPUT_ROUNDS = 10


class Connection:
    """An open MCP session.

    Attributes:
        closed: set when the connection has ended, whoever ended it.
        failure: why it ended, unless we closed it.
        tools: the server's tools in wire form, as last listed.
        quarantined: (name, reason) of tools that are not valid MCP.
    """

    def __init__(self, server: Server, client: Client, transport: Any) -> None:
        self._server = server
        self._client = client
        self._transport = transport
        self._redactor = redactor_for(server)
        self._on_tools_changed: Callable[[], None] = lambda: None
        self._on_closed: Callable[[], None] = lambda: None
        self._relist: anyio.Event = anyio.Event()
        self.closed = anyio.Event()
        self.ending = anyio.Event()
        self.failure: Exception | None = None
        self.opened_at = time.monotonic()
        self.last_heard = time.monotonic()
        self.tools: tuple[dict[str, Any], ...] = ()
        self.quarantined: tuple[tuple[str, str], ...] = ()
        self._quarantine: list[tuple[str, str]] = []
        self._requests = 0
        self._attributes: dict[str, Any] | None = None

    # What is known of the other side

    @property
    def server(self) -> Server:
        return self._server

    @property
    def protocol_version(self) -> str | None:
        """The negotiated MCP revision."""
        session = self._client._session
        return None if session is None else session.protocol_version

    @property
    def pid(self) -> int | None:
        """The process id of a stdio server."""
        process = getattr(self._transport, "process", None)
        return None if process is None else process.pid

    @property
    def session_id(self) -> str | None:
        """The HTTP session, where the revision has sessions."""
        return getattr(self._transport, "session_id", None)

    @property
    def stderr_tail(self) -> tuple[str, ...]:
        """The last lines that a stdio server wrote to stderr, without its secrets."""
        process = getattr(self._transport, "process", None)
        lines: Sequence[str] = () if process is None else tuple(process.stderr_lines)
        return tuple(self._redactor.text(line) for line in lines)

    @property
    def span_attributes(self) -> dict[str, Any]:
        """What the conventions want to know of the connection on each request's span."""
        if self._attributes is None:
            attributes: dict[str, Any] = {names.PROTOCOL_VERSION: self.protocol_version or ""}
            if self._server.command is not None:
                attributes[names.NETWORK_TRANSPORT] = "pipe"
            if self._server.url is not None:
                parts = urlsplit(self._server.url)
                attributes |= {names.NETWORK_TRANSPORT: "tcp", names.NETWORK_PROTOCOL_NAME: "http"}
                attributes[names.SERVER_ADDRESS] = parts.hostname or ""
                attributes[names.SERVER_PORT] = parts.port or (443 if parts.scheme == "https" else 80)
            if self.session_id is not None:
                attributes[names.SESSION_ID] = self.session_id
            self._attributes = attributes
        return self._attributes

    # Calls

    async def call_tool(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        *,
        timeout: float,
        on_progress: OnProgress | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Send ``tools/call`` and give the result in wire form.

        `timeout` seconds may pass without an answer or a progress report. Cancelling the caller tells the server.

        Raises:
            ServerUnavailable: the connection is closed, or was refused; nothing was sent.
            OutcomeUnknown: it was lost after the request was sent.
            Timeout: as said.
            ProtocolError: the server answered with an error, or with something that is not MCP.
        """
        if self.closed.is_set() or self.ending.is_set():
            raise ServerUnavailable(f"the connection to {self._server.id!r} is closed", server_id=self._server.id)
        mark = SendMark()
        token = current_mark.set(mark)
        self._requests += 1
        try:
            return await self._call(tool, dict(arguments), timeout, on_progress, dict(meta or {}))
        except MCPError as failure:
            raise self._from_rpc(failure, mark, tool, timeout) from failure
        except ValidationError as failure:
            raise ProtocolError(
                f"the server {self._server.id!r} answered with something that is not a valid tool result",
                server_id=self._server.id,
                tool=tool,
            ) from failure
        finally:
            current_mark.reset(token)
            self._requests -= 1
            self.last_heard = time.monotonic()

    async def _call(
        self,
        tool: str,
        arguments: dict[str, Any],
        timeout: float,
        on_progress: OnProgress | None,
        meta: dict[str, Any],
    ) -> dict[str, Any]:
        session = self._client.session
        responses: Any = None
        state: str | None = None
        for _ in range(_MAX_INPUT_ROUNDS):
            params = types.CallToolRequestParams(
                name=tool,
                arguments=arguments,
                input_responses=responses,
                request_state=state,
                _meta=meta or None,  # pyright: ignore[reportCallIssue, reportArgumentType]
            )
            request = types.CallToolRequest(params=params)
            raw = await self._send(request, timeout, on_progress)
            if raw.get("resultType") != "input_required":
                return raw
            asked = types.InputRequiredResult.model_validate(raw, by_name=False)
            responses = await self._answer_inputs(session, asked)
            state = asked.request_state
        raise MCPError(code=types.INTERNAL_ERROR, message=f"asked for input more than {_MAX_INPUT_ROUNDS} times")

    async def _send(
        self, request: types.CallToolRequest, timeout: float, on_progress: OnProgress | None
    ) -> dict[str, Any]:
        """One round, under a time-out that each progress report starts again."""
        timer = _ProgressTimer(timeout, on_progress)
        with anyio.CancelScope() as scope:
            timer.start(scope)
            try:
                return await self._client.session.send_request(request, _RAW, progress_callback=timer.report)
            except MCPError as mismatch:
                if mismatch.code != HEADER_MISMATCH or self.protocol_version not in MODERN_PROTOCOL_VERSIONS:
                    raise
                # 2026-07-28: the schema we know is stale; list again and send once more.
                await self.refresh_tools()
                return await self._client.session.send_request(request, _RAW, progress_callback=timer.report)
        raise MCPError(code=REQUEST_TIMEOUT, message="timed out")

    async def _answer_inputs(self, session: Any, asked: types.InputRequiredResult) -> dict[str, Any]:
        from mcp.client.session import ClientRequestContext

        answers: dict[str, Any] = {}
        for key, wish in (asked.input_requests or {}).items():
            context = ClientRequestContext(
                session=session, request_id=key, meta=wish.params.meta if wish.params else None
            )
            answer = await session.dispatch_input_request(context, wish)
            if isinstance(answer, types.ErrorData):
                raise MCPError.from_error_data(answer)
            answers[key] = answer
        return answers

    def _from_rpc(self, failure: MCPError, mark: SendMark, tool: str, timeout: float) -> Exception:
        server_id = self._server.id
        code, message = failure.error.code, failure.error.message
        if code == REQUEST_TIMEOUT and message == "timed out":
            return Timeout(
                f"{tool} gave no answer within {timeout:g} s", server_id=server_id, tool=tool
            )
        if code == types.CONNECTION_CLOSED:
            if mark.refused:
                self.fail(unavailable(self._server, failure))
                return ServerUnavailable(f"the server {server_id!r} cannot be reached", server_id=server_id, tool=tool)
            return OutcomeUnknown(
                f"the connection to {server_id!r} was lost while {tool} ran; it may or may not have done its work",
                server_id=server_id,
                tool=tool,
            )
        if self._server.url is not None and message == "Session terminated":
            # 404 for a known session: the server forgot it and did nothing; only a new connection helps.
            gone = ServerUnavailable(f"the server {server_id!r} ended its session", server_id=server_id, tool=tool)
            self.fail(gone)
            return gone
        text = self._redactor.text(message) or "no reason given"
        return ProtocolError(
            f"{server_id} refused the call of {tool}: {text}", server_id=server_id, tool=tool, rpc_code=code
        )

    # Tools

    async def refresh_tools(self) -> None:
        """Read all pages of the tool list and swap it in one step."""
        self._quarantine = []
        tools: dict[str, dict[str, Any]] = {}
        seen: set[str] = set()
        cursor: str | None = None
        for _ in range(self._server.max_pages):
            page = await self._client.session.list_tools(params=types.PaginatedRequestParams(cursor=cursor))
            for tool in page.tools:
                wire = tool.model_dump(by_alias=True, mode="json", exclude_none=True)
                if len(tools) < self._server.max_tools or wire["name"] in tools:
                    tools.setdefault(wire["name"], wire)
                else:
                    self._quarantine.append((wire["name"], f"more than {self._server.max_tools} tools"))
            cursor = page.next_cursor
            # A cursor that comes again would page for ever.
            if cursor is None or cursor in seen:
                break
            seen.add(cursor)
        self.tools = tuple(tools.values())
        self.quarantined = tuple(dict(self._quarantine).items())

    def quarantine(self, name: str, reason: str) -> None:
        """Note a tool that is left out of the list."""
        self._quarantine.append((name, reason))

    async def handle_message(self, message: Any) -> None:
        """The SDK's message handler: list changes of the handshake revisions."""
        self.last_heard = time.monotonic()
        if isinstance(message, types.ToolListChangedNotification):
            self._relist.set()

    async def watch_tools(self) -> None:
        """Read the list again when the server says that it changed; many notices in a row count once."""
        while True:
            await self._relist.wait()
            await anyio.sleep(_LIST_DEBOUNCE)
            self._relist = anyio.Event()
            before = json.dumps(self.tools, sort_keys=True)
            await self.refresh_tools()
            if json.dumps(self.tools, sort_keys=True) != before:
                self._on_tools_changed()

    async def listen_for_changes(self) -> None:
        """2026-07-28: hear of list changes on a stream that is kept open. A lost stream is opened again."""
        while not self.ending.is_set():
            try:
                async with listen(self._client.session, tools_list_changed=True) as subscription:
                    async for _ in subscription:
                        self._relist.set()
            except SubscriptionLost:
                pass
            except MCPError as refusal:
                if refusal.error.code != types.CONNECTION_CLOSED:
                    return
            # What changed while nobody listened is found by reading the list.
            await anyio.sleep(_LISTEN_AGAIN)
            self._relist.set()

    async def check_health(self, interval: float) -> None:
        """Ask an idle server for a sign of life; no answer within an interval ends the connection."""
        while True:
            await anyio.sleep(interval)
            if self._requests or time.monotonic() - self.last_heard < interval:
                continue
            with anyio.move_on_after(interval) as scope:
                try:
                    await self._sign_of_life()
                except MCPError as error:
                    if error.code == types.CONNECTION_CLOSED:
                        return
                self.last_heard = time.monotonic()
            if scope.cancelled_caught:
                self.fail(
                    ServerUnavailable(
                        f"the server {self._server.id!r} gave no sign of life for {interval:g} s",
                        server_id=self._server.id,
                    )
                )
                return

    async def _sign_of_life(self) -> None:
        session = self._client.session
        if self.protocol_version in MODERN_PROTOCOL_VERSIONS:
            await session.send_discover(str(self.protocol_version))  # this revision has no ping
        else:
            await session.send_ping()

    # The end

    def fail(self, error: Exception) -> None:
        """The connection is of no more use. The first reason counts."""
        if self.failure is None and not self.closed.is_set():
            self.failure = error
        self.ending.set()

    async def settle_end(self) -> None:
        """Wait for the end, find out why, and set `closed`."""
        await self.ending.wait()
        process = getattr(self._transport, "process", None)
        if self.failure is None and process is not None:
            # The pipe closes a moment before the exit status is known.
            with anyio.move_on_after(0.3):
                status = await process.wait_exit()
                self._transport.fail(f"its process ended with {_status(status)}")
        failure = self.failure or getattr(self._transport, "failure", None)
        self.failure = failure or ServerUnavailable(
            f"the server {self._server.id!r} closed the connection", server_id=self._server.id
        )
        self.closed.set()
        self._on_closed()


def _status(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit status {code}"


class _ProgressTimer:
    """Cancels a scope `timeout` seconds after the last progress report."""

    def __init__(self, timeout: float, on_progress: OnProgress | None) -> None:
        self._timeout = timeout
        self._on_progress = on_progress
        self._scope: anyio.CancelScope | None = None

    def start(self, scope: anyio.CancelScope) -> None:
        self._scope = scope
        scope.deadline = anyio.current_time() + self._timeout

    async def report(self, progress: float, total: float | None, message: str | None) -> None:
        if self._scope is not None:
            self._scope.deadline = anyio.current_time() + self._timeout
        if self._on_progress is not None:
            # The SDK logs what a progress callback raises and carries on.
            answer = self._on_progress(progress, total, message)
            if hasattr(answer, "__await__"):
                await answer


@asynccontextmanager
async def open_connection(
    server: Server,
    *,
    on_tools_changed: Callable[[], None] = lambda: None,
    on_closed: Callable[[], None] = lambda: None,
) -> AsyncGenerator[Connection, None]:
    """Open a connection: spawn or connect, shake hands, read the first tool list, all within `connect_timeout`.

    To be entered and left in one task. The callbacks are called on the event loop: `on_tools_changed` after the list
    was read again and differs, `on_closed` when the connection ended without being left.

    Raises:
        ServerUnavailable: it could not be opened, or was lost; one line with the server and the cause.
    """
    transport, target = _target(server)
    client = Client(
        target,
        mode=server.protocol,
        client_info=types.Implementation(name="conduit-actors", version="0.1.0"),
        cache=None,
        logging_callback=_log_to(server),
        elicitation_callback=server.elicitation,
        sampling_callback=server.sampling,
        list_roots_callback=None if server.roots is None else _roots(server.roots),
    )
    connection = Connection(server, client, transport)
    client.message_handler = connection.handle_message
    _instrument(client, connection)
    connected = False
    raised_inside: BaseException | None = None
    with anyio.CancelScope(deadline=anyio.current_time() + server.connect_timeout) as scope:
        try:
            async with client, anyio.create_task_group() as tasks:
                await connection.refresh_tools()
                connected = True
                scope.deadline = float("inf")
                connection._on_tools_changed, connection._on_closed = on_tools_changed, on_closed
                _watch(tasks, connection)
                try:
                    yield connection
                except BaseException as error:
                    raised_inside = error
                    raise
                tasks.cancel_scope.cancel()
        except Exception as error:
            if isinstance(raised_inside, Exception):
                raise raised_inside from None
            status = getattr(transport, "status", None)
            ended = getattr(transport, "failure", None)
            raise unavailable(server, error, status=status, ended=ended, stderr=connection.stderr_tail) from error
        finally:
            connection.closed.set()
    if not connected:
        raise unavailable(server, TimeoutError(), stderr=connection.stderr_tail)


def _watch(tasks: TaskGroup, connection: Connection) -> None:
    """Start what goes on beside the calls."""
    server = connection.server
    tasks.start_soon(connection.settle_end)
    tasks.start_soon(connection.watch_tools)
    capabilities = connection._client.server_capabilities.tools
    if connection.protocol_version in MODERN_PROTOCOL_VERSIONS and capabilities and capabilities.list_changed:
        tasks.start_soon(connection.listen_for_changes)
    if server.health_interval is not None and server.transport is None:
        tasks.start_soon(connection.check_health, server.health_interval)


def _target(server: Server) -> tuple[Any, Any]:
    """The transport object, if it is one of ours, and what `mcp.Client` is to connect to."""
    if server.command is not None:
        transport = StdioTransport(server)
        return transport, transport
    if server.url is not None:
        transport = HttpTransport(server)
        return transport, transport
    given = server.transport
    if callable(given) and not isinstance(given, (LowLevelServer, MCPServer)) and not hasattr(given, "__aenter__"):
        given = given()
    return None, given


def _instrument(client: Client, connection: Connection) -> None:
    """Put our dispatcher around the SDK's. `mcp.Client` has no public way to do it; a test pins this one."""
    connect = client._connect

    async def connect_observed(stack: Any, mode: Any, raise_exceptions: bool) -> Any:
        inner = await connect(stack, mode, raise_exceptions)
        if isinstance(inner, JSONRPCDispatcher):
            inner.on_stream_exception = _ignore
        return ConnectionDispatcher(inner, connection.quarantine, connection.ending.set)

    client._connect = connect_observed


async def _ignore(error: Exception) -> None:
    """Transport noise; the end of a connection is heard of in another way."""


def _log_to(server: Server) -> Any:
    logger = logging.getLogger(f"conduit_actors.server.{server.id}")
    redactor = redactor_for(server)

    async def log(params: types.LoggingMessageNotificationParams) -> None:
        level = _LEVELS.get(params.level, logging.INFO)
        if logger.isEnabledFor(level):
            logger.log(level, "%s", redactor.text(str(params.data))[:_MAX_LOG_CHARS])

    return log


_MAX_LOG_CHARS = 2_000
_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "notice": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
    "alert": logging.CRITICAL,
    "emergency": logging.CRITICAL,
}


def _roots(uris: Sequence[str]) -> Any:
    async def list_roots(context: Any) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[types.Root(uri=uri) for uri in uris])  # pyright: ignore[reportArgumentType]

    return list_roots
