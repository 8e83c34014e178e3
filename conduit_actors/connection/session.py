"""`Connection`: one MCP session, from open to closed. `conduit_actors.connection.opening` opens it.

It knows no actors and restarts nothing. Its calls may come from any task of the event loop that it was opened in.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import anyio
import mcp_types as types
from mcp import ClientSession
from mcp.client.session import ClientRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED, HEADER_MISMATCH
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import TypeAdapter, ValidationError

from conduit_actors.connection.http import HttpTransport
from conduit_actors.connection.quiet import redacted_logs
from conduit_actors.connection.records import CallRecord, current_call
from conduit_actors.connection.stdio import StdioTransport
from conduit_actors.connection.tools import ToolList
from conduit_actors.errors import OutcomeUnknown, ProtocolError, ServerUnavailable, Timeout
from conduit_actors.secrets import redactor_for
from conduit_actors.server import Server
from conduit_actors.sources import OnProgress
from conduit_telemetry import Redactor, names

_ANSWER: TypeAdapter[types.CallToolResult | types.InputRequiredResult] = TypeAdapter(
    types.CallToolResult | types.InputRequiredResult
)
_MAX_INPUT_ROUNDS = 10
"""Rounds of the server's questions in one call, as in the SDK (mcp 2.3)."""
_ASK_AGAIN_SECONDS = 0.1


class Connection:
    """An MCP session.

    Attributes:
        server: what it connects to.
        principal: on whose behalf, for a server with one connection per principal.
        closed: set when the connection has ended, whoever ended it, and `failure` says why.
        ending: set as soon as nothing more can be sent; a moment before `closed`.
        failure: why it ended, unless its owner closed it.
        answered: the server has answered anything at all.
        tool_list: the reader behind `tools` and `quarantined`.
    """

    def __init__(
        self, server: Server, principal: str | None, transport: StdioTransport | HttpTransport | None, version: str
    ) -> None:
        self.server = server
        self.principal = principal
        self.closed = anyio.Event()
        self.ending = anyio.Event()
        self.failure: ServerUnavailable | None = None
        self._transport = transport
        self.tool_list = ToolList(server)
        self._session: ClientSession | None = None
        self._expected_version = version
        self._attributes: dict[str, Any] | None = None
        self._scopes: set[anyio.CancelScope] = set()
        self._heard_at = time.monotonic()
        self.answered = False

    def use(self, server: Server) -> None:
        """Go on with other credentials of the same server, from the next request on."""
        self.server = server
        if isinstance(self._transport, HttpTransport):
            self._transport.use(server)

    @property
    def _redactor(self) -> Redactor:
        return redactor_for(self.server)

    # What is known of the other side

    @property
    def tools(self) -> tuple[dict[str, Any], ...]:
        """The server's tools in wire form, as last listed."""
        return self.tool_list.tools

    @property
    def quarantined(self) -> tuple[tuple[str, str], ...]:
        """(name, reason) of tools that are left out: not valid MCP, doubled, or too many."""
        return self.tool_list.quarantined

    @property
    def protocol_version(self) -> str | None:
        """The negotiated MCP revision."""
        return None if self._session is None else self._session.protocol_version

    @property
    def server_info(self) -> dict[str, Any] | None:
        """The server's name and version, as it gives them."""
        info = None if self._session is None else self._session.server_info
        return None if info is None else info.model_dump(by_alias=True, mode="json", exclude_none=True)

    @property
    def instructions(self) -> str | None:
        """The server's words for the model."""
        return None if self._session is None else self._session.instructions

    @property
    def pid(self) -> int | None:
        """The process id of a stdio server."""
        process = self._transport.process if isinstance(self._transport, StdioTransport) else None
        return None if process is None else process.pid

    @property
    def session_id(self) -> str | None:
        """The HTTP session, where the revision has sessions."""
        return self._transport.session_id if isinstance(self._transport, HttpTransport) else None

    @property
    def stderr_tail(self) -> tuple[str, ...]:
        """The last lines that a stdio server wrote to stderr, without its secrets."""
        process = self._transport.process if isinstance(self._transport, StdioTransport) else None
        return () if process is None else tuple(self._redactor.text(line) for line in tuple(process.stderr_lines))

    @property
    def span_attributes(self) -> dict[str, Any]:
        """What the telemetry conventions want to know of the connection on each request's span."""
        if self._attributes is None:
            attributes: dict[str, Any] = {names.PROTOCOL_VERSION: self.protocol_version or ""}
            if self.server.command is not None:
                attributes[names.NETWORK_TRANSPORT] = "pipe"
            if self.server.url is not None:
                parts = urlsplit(self.server.url)
                attributes |= {names.NETWORK_TRANSPORT: "tcp", names.NETWORK_PROTOCOL_NAME: "http"}
                attributes[names.SERVER_ADDRESS] = parts.hostname or ""
                attributes[names.SERVER_PORT] = parts.port or (443 if parts.scheme == "https" else 80)
            if self.session_id is not None:
                attributes[names.SESSION_ID] = self.session_id
            self._attributes = attributes
        return self._attributes

    @property
    def busy(self) -> bool:
        """A call is in flight."""
        return bool(self._scopes)

    @property
    def silent_for(self) -> float:
        """Seconds since the server was heard of last."""
        return time.monotonic() - self._heard_at

    # Calls

    async def call_tool(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        *,
        timeout: float,
        on_progress: OnProgress | None = None,
        meta: Mapping[str, Any] | None = None,
        on_sent: Callable[[], None] | None = None,
    ) -> dict[str, Any]:
        """Send ``tools/call`` and give the result in wire form.

        `timeout` seconds may pass without an answer or a progress report. Cancelling the caller tells the server, and
        leaves the connection usable. `on_sent` is called once, when the request is on its way.

        Raises:
            ServerUnavailable: the connection is closed, or could not carry the request; nothing was sent.
            OutcomeUnknown: it was lost after the request was sent.
            Timeout: as said.
            ProtocolError: the server answered with an error, or with something that is not MCP.
        """
        if self.ending.is_set() or self._session is None:
            raise ServerUnavailable(f"the connection to {self.server.id!r} is closed", server_id=self.server.id)
        call = CallRecord(on_sent)
        token = current_call.set(call)
        try:
            with redacted_logs(self):
                return await self._rounds(self._session, call, tool, arguments, timeout, on_progress, meta)
        except MCPError as failure:
            raise self._explain(failure, call, tool) from failure
        except ValidationError as failure:
            text = f"the server {self.server.id!r} answered with something that is not a valid tool result"
            raise ProtocolError(text, server_id=self.server.id, tool=tool) from failure
        finally:
            current_call.reset(token)

    async def _rounds(
        self,
        session: ClientSession,
        call: CallRecord,
        tool: str,
        arguments: Mapping[str, Any],
        timeout: float,
        on_progress: OnProgress | None,
        meta: Mapping[str, Any] | None,
    ) -> dict[str, Any]:
        """Send, and send again with answers while the server asks for input (2026-07-28)."""
        responses: types.InputResponses | None = None
        state: str | None = None
        for _ in range(_MAX_INPUT_ROUNDS):
            params = types.CallToolRequestParams.model_validate(
                {
                    "name": tool,
                    "arguments": arguments,
                    "inputResponses": responses,
                    "requestState": state,
                    "_meta": dict(meta) if meta else None,
                }
            )
            asked = await self._send(session, call, types.CallToolRequest(params=params), timeout, on_progress)
            if call.raw is not None:
                return call.raw
            assert isinstance(asked, types.InputRequiredResult)
            if not asked.input_requests:
                # Only "ask me again": the server is not to be asked in a tight loop.
                await anyio.sleep(_ASK_AGAIN_SECONDS)
            responses = await _answers(session, asked)
            state = asked.request_state
        raise MCPError(types.INTERNAL_ERROR, f"it asked for input more than {_MAX_INPUT_ROUNDS} times")

    async def _send(
        self,
        session: ClientSession,
        call: CallRecord,
        request: types.CallToolRequest,
        timeout: float,
        on_progress: OnProgress | None,
    ) -> types.CallToolResult | types.InputRequiredResult:
        """One round, under a time-out that each progress report starts again."""
        scope = anyio.CancelScope(deadline=anyio.current_time() + timeout)

        async def report(progress: float, total: float | None, message: str | None) -> None:
            scope.deadline = anyio.current_time() + timeout
            self.heard()
            if on_progress is not None:
                # The SDK logs what a progress callback raises and carries on.
                answer = on_progress(progress, total, message)
                if hasattr(answer, "__await__"):
                    await answer

        self._scopes.add(scope)
        try:
            with scope:
                try:
                    return await session.send_request(request, _ANSWER, progress_callback=report)
                except MCPError as mismatch:
                    if mismatch.error.code != HEADER_MISMATCH or self.protocol_version not in MODERN_PROTOCOL_VERSIONS:
                        raise
                # The tool's schema, which says what goes into HTTP headers, is stale: list again, send once more.
                await self.tool_list.read(session)
                return await session.send_request(request, _ANSWER, progress_callback=report)
        finally:
            self._scopes.discard(scope)
        tool = request.params.name
        if self.ending.is_set():
            raise self._lost(call, tool)
        text = f"{tool} gave no answer within {timeout:g} s"
        raise Timeout(text, server_id=self.server.id, tool=tool)

    def _explain(self, failure: MCPError, call: CallRecord, tool: str) -> Exception:
        """The error of the contract for an error of the SDK."""
        server_id = self.server.id
        message = failure.error.message
        if call.session_lost or is_loss(failure):
            if self.server.url is None:
                # Over a pipe that is the end of the connection, and whoever asks next should know it at once.
                self.ended()
            return self._lost(call, tool)
        if call.status is not None:
            text = f"{server_id} answered the call of {tool} with HTTP status {call.status}"
        else:
            text = f"{server_id} refused the call of {tool}"
        text = f"{text}: {self._redactor.text(message) or 'no reason given'}"
        return ProtocolError(text, server_id=server_id, tool=tool, rpc_code=failure.error.code)

    def _lost(self, call: CallRecord, tool: str) -> Exception:
        server_id = self.server.id
        if call.session_lost or not call.sent:
            text = f"the connection to {server_id!r} was lost before {tool} was called"
            if self.failure is not None:
                text = self.failure.message
            return ServerUnavailable(text, server_id=server_id, tool=tool)
        text = f"the connection to {server_id!r} was lost while {tool} ran; it may or may not have done its work"
        return OutcomeUnknown(text, server_id=server_id, tool=tool)

    # Tools

    def attach(self, session: ClientSession) -> None:
        """The handshake is done."""
        self._session = session

    async def refresh_tools(self) -> bool:
        """Read all pages of the tool list and swap it in one step. Says whether it differs.

        Raises:
            ServerUnavailable: the connection is closed.
            ProtocolError: the server refused.
            Timeout: it took longer than `Server.connect_timeout`.
        """
        if self._session is None or self.ending.is_set():
            raise ServerUnavailable(f"the connection to {self.server.id!r} is closed", server_id=self.server.id)
        try:
            with anyio.fail_after(self.server.connect_timeout), redacted_logs(self):
                return await self.tool_list.read(self._session)
        except TimeoutError as failure:
            text = f"{self.server.id} did not list its tools within {self.server.connect_timeout:g} s"
            raise Timeout(text, server_id=self.server.id) from failure
        except MCPError as failure:
            if is_loss(failure):
                text = f"the connection to {self.server.id!r} was lost"
                raise ServerUnavailable(text, server_id=self.server.id) from failure
            text = f"{self.server.id} refused to list its tools: {self._redactor.text(failure.error.message)}"
            raise ProtocolError(text, server_id=self.server.id, rpc_code=failure.error.code) from failure

    async def handle_message(self, message: Any) -> None:
        """The SDK's message handler: list changes of the handshake revisions."""
        self.heard()
        if isinstance(message, types.ToolListChangedNotification):
            self.tool_list.mark_stale()

    # What the dispatcher sees

    def tools_page(self, page: dict[str, Any]) -> dict[str, Any]:
        """Take a raw page of the tool list; what the SDK is to see of it."""
        return self.tool_list.sift(page, self.protocol_version or self._expected_version)

    def heard(self) -> None:
        """The server gave a sign of life."""
        self._heard_at = time.monotonic()
        self.answered = True

    def ended(self) -> None:
        """Nothing more can be sent."""
        self.ending.set()

    # The end

    def fail(self, error: ServerUnavailable) -> None:
        """The connection is of no more use. The first reason counts."""
        if self.failure is None and not self.closed.is_set():
            self.failure = error
        self.ending.set()

    def release_callers(self) -> None:
        """End the calls that the end of the session did not end by itself, as in-process calls are not."""
        for scope in tuple(self._scopes):
            scope.cancel()


async def _answers(session: ClientSession, asked: types.InputRequiredResult) -> types.InputResponses:
    answers: types.InputResponses = {}
    for key, wish in (asked.input_requests or {}).items():
        context = ClientRequestContext(session=session, request_id=key, meta=wish.params.meta if wish.params else None)
        answer = await session.dispatch_input_request(context, wish)
        if isinstance(answer, types.ErrorData):
            raise MCPError.from_error_data(answer)
        answers[key] = answer
    return answers


def is_loss(failure: MCPError) -> bool:
    """The connection, or the one HTTP exchange, ended without an answer.

    The code alone does not tell: it is -32000, which servers also use for errors of their own.
    """
    text = failure.error.message
    return failure.error.code == CONNECTION_CLOSED and (text == "Connection closed" or text.startswith("SSE stream "))
