"""The HTTP side of a connection: headers, credentials, TLS, and what the last answers were.

The Streamable HTTP protocol itself is the SDK's. It uses ``httpx2``; so the options here are that library's.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any, cast

import anyio
import httpx2
from mcp.client.streamable_http import streamable_http_client

from conduit_actors.server import Server

_READ_TIMEOUT = 300.0
"""Seconds between two chunks of a response; a call's own time-outs are shorter, a listening stream's silence longer."""


class SendMark:
    """Notes about one request, made by the HTTP client on its way out.

    Attributes:
        refused: no connection could be made, so the server never saw the request.
    """

    __slots__ = ("refused",)

    def __init__(self) -> None:
        self.refused = False


current_mark: ContextVar[SendMark | None] = ContextVar("current_mark", default=None)


class HttpTransport:
    """An mcp ``Transport`` over Streamable HTTP.

    Attributes:
        status: the status of the last response that was not a success, None if there was none.
        session_id: the session that the server gave, where its revision has sessions.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self._context = self._run()
        self.status: int | None = None
        self.session_id: str | None = None

    async def __aenter__(self) -> Any:
        return await self._context.__aenter__()

    async def __aexit__(self, *exc_info: Any) -> bool | None:
        return await self._context.__aexit__(*exc_info)

    @asynccontextmanager
    async def _run(self) -> AsyncGenerator[Any, None]:
        assert self._server.url is not None
        async with self._client() as client:
            async with streamable_http_client(
                self._server.url, http_client=client, max_sse_event_size=self._server.max_message_bytes
            ) as streams:
                yield streams

    def _client(self) -> httpx2.AsyncClient:
        server = self._server
        headers = server.headers
        return httpx2.AsyncClient(
            headers=None if headers is None or callable(headers) else dict(headers),
            auth=_auth(server.auth),
            timeout=httpx2.Timeout(server.connect_timeout, read=max(_READ_TIMEOUT, server.timeout)),
            transport=_Marking(
                httpx2.AsyncHTTPTransport(
                    verify=server.verify, proxy=server.proxy, trust_env=server.trust_env, limits=_limits()
                )
            )
            if not _wants_environment_proxy(server)
            else None,
            verify=server.verify,
            trust_env=server.trust_env,
            event_hooks={"request": [self._on_request], "response": [self._on_response]},
        )

    async def _on_request(self, request: httpx2.Request) -> None:
        headers = self._server.headers
        if callable(headers):
            given = headers()
            request.headers.update(dict(await given if inspect.isawaitable(given) else given))

    async def _on_response(self, response: httpx2.Response) -> None:
        if response.status_code >= 400:
            self.status = response.status_code
        self.session_id = response.headers.get("mcp-session-id", self.session_id)


def _wants_environment_proxy(server: Server) -> bool:
    # With a transport of our own httpx2 does not look at HTTP_PROXY and the like; then its own transport is used.
    if not server.trust_env or server.proxy is not None or server.url is None:
        return False
    import urllib.request

    url = httpx2.URL(server.url)
    proxies = urllib.request.getproxies()
    return bool(proxies.get(url.scheme) or proxies.get("all")) and not urllib.request.proxy_bypass(url.host)


def _limits() -> httpx2.Limits:
    # Each call in flight holds one connection; the hub's own limits bound them.
    return httpx2.Limits(max_connections=None, max_keepalive_connections=20)


class _Marking(httpx2.AsyncBaseTransport):
    """Tells the sender of a request when no connection could be made at all."""

    def __init__(self, inner: httpx2.AsyncBaseTransport) -> None:
        self._inner = inner

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        try:
            return await self._inner.handle_async_request(request)
        except (httpx2.ConnectError, httpx2.ConnectTimeout):
            mark = current_mark.get()
            if mark is not None:
                mark.refused = True
            raise

    async def aclose(self) -> None:
        await self._inner.aclose()


def _auth(given: Any) -> httpx2.Auth | None:
    if given is None or isinstance(given, httpx2.Auth):
        return given
    if callable(given) and not hasattr(given, "auth_flow") and not hasattr(given, "async_auth_flow"):
        return BearerAuth(cast("Callable[[], Any]", given))
    return cast("httpx2.Auth", given)


class BearerAuth(httpx2.Auth):
    """Sends ``Authorization: Bearer`` with a token from a provider.

    The provider, plain or async, is asked for the first token, and again after a 401: once for all requests that were
    refused with the same token. Each refused request is sent once more.
    """

    requires_response_body = False

    def __init__(self, provider: Callable[[], Any]) -> None:
        self._provider = provider
        self._token: str | None = None
        self._lock = anyio.Lock()

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        used = await self._fresh(None)
        request.headers["Authorization"] = f"Bearer {used}"
        response = yield request
        if response.status_code == 401:
            request.headers["Authorization"] = f"Bearer {await self._fresh(used)}"
            yield request

    async def _fresh(self, refused: str | None) -> str:
        """The token; a new one if the present one is the refused one."""
        if self._token is not None and self._token != refused:
            return self._token
        async with self._lock:
            if self._token is None or self._token == refused:
                given = self._provider()
                self._token = str(await given if inspect.isawaitable(given) else given)
            return self._token
