"""The HTTP side of a connection: headers, credentials, TLS, and what to do when an exchange fails.

The Streamable HTTP protocol itself is the SDK's, and it uses ``httpx2``; so the options here are that library's. What
is added: a failed exchange costs the call it belongs to and not the whole session, nothing but a request's answer is
ever waited for, and every wait has a bound.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, cast

import anyio
import httpx2
from anyio.abc import TaskGroup
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CONNECTION_CLOSED, INVALID_REQUEST, METHOD_NOT_FOUND

from conduit_actors.connection.causes import unavailable
from conduit_actors.connection.providers import ask, auth_of
from conduit_actors.connection.records import current_call
from conduit_actors.errors import ServerUnavailable
from conduit_actors.server import Server

_READ_SECONDS = 300.0
"""Between two chunks of a stream that listens; after a longer silence it is opened again. As in the SDK (mcp 2.3)."""

_CLOSE_SECONDS = 2.0
"""For the DELETE of the session at close."""

_NOTICE_SECONDS = 5.0
"""For a notification, which nobody waits for."""

_CLOSED = "Connection closed"
"""What the SDK says of a lost connection."""

_SESSION_HEADER = "mcp-session-id"
_NO_SERVER = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.ProxyError, httpx2.UnsupportedProtocol)


class HttpTransport:
    """An mcp ``Transport`` over Streamable HTTP.

    Attributes:
        failure: why the connection is of no more use, if HTTP is to blame.
        session_id: the session that the server gave, where its revision has sessions.
        opened: the handshake is done; until then any failed exchange fails the connection.
        on_failure: called once, when `failure` is set.
        on_doubt: called when something went wrong that a dead server would explain.
    """

    def __init__(self, server: Server, principal: str | None = None) -> None:
        self.server = server
        self.principal = principal
        self.failure: ServerUnavailable | None = None
        self.session_id: str | None = None
        self.opened = False
        self.on_failure: Callable[[], None] = lambda: None
        self.on_doubt: Callable[[], None] = lambda: None
        self._client: _McpHttpClient | None = None
        self._context = self._run()

    async def __aenter__(self) -> Any:
        return await self._context.__aenter__()

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> bool | None:
        return await self._context.__aexit__(exc_type, exc, tb)

    @asynccontextmanager
    async def _run(self) -> AsyncGenerator[Any, None]:
        assert self.server.url is not None
        async with anyio.create_task_group() as notices:
            async with (
                _McpHttpClient(self, notices) as self._client,
                streamable_http_client(
                    self.server.url, http_client=self._client, max_sse_event_size=self.server.max_message_bytes
                ) as streams,
            ):
                yield streams
                # The cancellations of the last calls are on their way.
                await self._client.notices_sent(_CLOSE_SECONDS / 2)
            notices.cancel_scope.cancel()

    def use(self, server: Server) -> None:
        """Take the headers and the auth of another configuration of the same server, from the next request on."""
        self.server = server
        if self._client is not None:
            self._client.auth = auth_of(server.auth, self.principal) or httpx2.Auth()

    def fail(self, error: BaseException) -> None:
        """The connection is of no more use; the first reason counts."""
        if self.failure is None:
            self.failure = unavailable(self.server, error)
            self.on_failure()


class _McpHttpClient(httpx2.AsyncClient):
    """An ``httpx2.AsyncClient`` for the SDK's transport, whose `send` does not raise.

    In the SDK's transport an exception of one exchange ends all of them.
    """

    def __init__(self, transport: HttpTransport, notices: TaskGroup) -> None:
        server = transport.server
        super().__init__(
            auth=auth_of(server.auth, transport.principal),
            timeout=httpx2.Timeout(server.connect_timeout, read=_READ_SECONDS),
            # Each call in flight holds one connection; the hub's own limits bound them.
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=20),
            verify=server.verify,
            proxy=server.proxy,
            trust_env=server.trust_env,
            event_hooks={"response": [_note_refusal]},
        )
        self._owner = transport
        self._notices = notices
        self._pending = 0
        self._all_sent = anyio.Event()

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send a request of the SDK's transport."""
        if self._owner.failure is not None:
            return _refusal(request, _CLOSED)
        if request.method == "DELETE":
            with anyio.fail_after(_CLOSE_SECONDS):  # the SDK logs that it failed, and goes on
                return await super().send(await self._with_headers(request), **options)
        if request.method == "POST" and _is_notice(request):
            # The SDK sends these in line: a server that does not answer them would hold up all that follows.
            self._pending += 1
            self._notices.start_soon(self._send_notice, request)
            return httpx2.Response(202, request=request)
        return await self._exchange(request, options)

    async def _exchange(self, request: httpx2.Request, options: dict[str, Any]) -> httpx2.Response:
        owner, call = self._owner, current_call.get()

        async def trace(event: str, info: Any) -> None:
            if call is not None and event.endswith("send_request_headers.started"):
                call.mark_sent()

        request.extensions = {**request.extensions, "trace": trace}
        if request.method == "POST":
            # The call's own time-out bounds it; a tool may be silent for longer than any other stream.
            request.extensions["timeout"] = httpx2.Timeout(owner.server.connect_timeout, read=None).as_dict()
        try:
            response = await super().send(await self._with_headers(request), **options)
            if response.headers.get("content-type", "").lower().startswith("application/json"):
                response = await self._read(response)
            else:
                response.stream = _WatchedStream(cast("httpx2.AsyncByteStream", response.stream), owner)
        except Exception as error:  # noqa: BLE001 - a host's auth and header providers raise what they like
            if isinstance(error, _NO_SERVER) or not owner.opened:
                owner.fail(error)
            else:
                owner.on_doubt()
            return _refusal(request, _CLOSED)
        self._note(request, response)
        return response

    def _note(self, request: httpx2.Request, response: httpx2.Response) -> None:
        owner, call = self._owner, current_call.get()
        owner.session_id = response.headers.get(_SESSION_HEADER, owner.session_id)
        status = response.status_code
        if status < 400 or request.method != "POST":
            return
        if call is not None:
            call.status = status
        known_session = _SESSION_HEADER in request.headers
        where = f"the server {owner.server.id!r}"
        if status == 404 and known_session and not _unknown_method(response):
            # Streamable HTTP, revision 2025-03-26 and later: the client must start a new session.
            if call is not None:
                call.session_lost = True
            text = f"{where} no longer knows its session (HTTP status 404)"
            owner.fail(ServerUnavailable(text, server_id=owner.server.id))
        elif owner.opened:
            owner.on_doubt()
        elif status in (401, 403, 407) or status >= 500:
            text = f"{where} answered HTTP status {status} to the handshake"
            owner.fail(ServerUnavailable(text, server_id=owner.server.id))

    async def _read(self, response: httpx2.Response) -> httpx2.Response:
        """The response with its body read, which the SDK would do without a bound."""
        limit = self._owner.server.max_message_bytes
        body = bytearray()
        try:
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > limit:
                    return _refusal(response.request, f"its answer has more than {limit} bytes", INVALID_REQUEST)
        finally:
            await response.aclose()
        headers = [
            (name, value)
            for name, value in response.headers.multi_items()
            if name.lower() not in ("content-encoding", "content-length", "transfer-encoding")
        ]
        return httpx2.Response(response.status_code, headers=headers, content=bytes(body), request=response.request)

    async def _with_headers(self, request: httpx2.Request) -> httpx2.Request:
        # For each request, not once for the client: they may be replaced while it is open.
        headers = self._owner.server.headers
        if callable(headers):
            headers = dict(await ask(headers, self._owner.principal))
        request.headers.update(headers or {})
        return request

    async def _send_notice(self, request: httpx2.Request) -> None:
        try:
            with anyio.move_on_after(_NOTICE_SECONDS):
                response = await super().send(await self._with_headers(request), stream=True)
                await response.aclose()
        except Exception:  # noqa: BLE001 - nobody waits for it, and the requests beside it show what is wrong
            self._owner.on_doubt()
        finally:
            self._pending -= 1
            if not self._pending:
                self._all_sent.set()
                self._all_sent = anyio.Event()

    async def notices_sent(self, seconds: float) -> None:
        """Wait until no notification is on its way, at most so long."""
        if self._pending:
            with anyio.move_on_after(seconds):
                await self._all_sent.wait()


def _unknown_method(response: httpx2.Response) -> bool:
    """The session is fine, the method is not there: revision 2026-07-28 says that with a 404, too."""
    if not response.is_stream_consumed:
        return False
    try:
        body: Any = response.json()
    except ValueError:
        return False
    error: Any = cast("dict[str, Any]", body).get("error") if isinstance(body, dict) else None
    return isinstance(error, dict) and cast("dict[str, Any]", error).get("code") == METHOD_NOT_FOUND


async def _note_refusal(response: httpx2.Response) -> None:
    call = current_call.get()
    if call is not None and response.status_code == 401:
        call.mark_refused()


class _WatchedStream(httpx2.AsyncByteStream):
    """A response's body that tells when it breaks off."""

    def __init__(self, inner: httpx2.AsyncByteStream, owner: HttpTransport) -> None:
        self._inner = inner
        self._owner = owner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._inner:
                yield chunk
        except httpx2.HTTPError:
            self._owner.on_doubt()
            raise

    async def aclose(self) -> None:
        await self._inner.aclose()


def _is_notice(request: httpx2.Request) -> bool:
    """A message without an answer of its own. The handshake's last word is not one: what follows relies on it."""
    try:
        message: Any = json.loads(request.content)
    except ValueError:
        return False
    is_request = isinstance(message, dict) and "id" in message and "method" in message
    return not is_request and cast("dict[str, Any]", message).get("method") != "notifications/initialized"


def _refusal(request: httpx2.Request, message: str, code: int = CONNECTION_CLOSED) -> httpx2.Response:
    """A response in which the SDK finds an error for this one request."""
    body = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}}
    return httpx2.Response(502, json=body, request=request)
