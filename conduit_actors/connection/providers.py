"""Callables that a host gives instead of values: asked anew each time, plain or async, for a principal or for all."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Callable
from typing import Any, cast

import anyio
import anyio.lowlevel
import httpx2


async def ask(provider: Callable[..., Any], principal: str | None) -> Any:
    """What the provider gives. One that takes a parameter is told the principal of the connection."""
    given = call(provider, principal)
    return await given if inspect.isawaitable(given) else given


def call(provider: Callable[..., Any], principal: str | None) -> Any:
    """As `ask`, for a plain provider."""
    try:
        wants_principal = any(
            parameter.default is inspect.Parameter.empty
            and parameter.kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
            for parameter in inspect.signature(provider).parameters.values()
        )
    except ValueError:  # some builtins have no signature
        wants_principal = False
    return provider(principal) if wants_principal else provider()


class BearerAuth(httpx2.Auth):
    """Sends ``Authorization: Bearer`` with a token from a provider.

    The provider is asked for each request; requests that come while it is being asked share its answer. After a 401 it
    is asked again, once for all requests that were refused with the same token, and each of them is sent once more.
    """

    requires_response_body = False

    def __init__(self, provider: Callable[..., Any], principal: str | None) -> None:
        self._provider = provider
        self._principal = principal
        self._latest: str | None = None
        self._answers = 0
        self._lock = anyio.Lock()

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        used = await self._token(refused=None)
        request.headers["Authorization"] = f"Bearer {used}"
        response = yield request
        if response.status_code == 401:
            request.headers["Authorization"] = f"Bearer {await self._token(refused=used)}"
            yield request

    async def _token(self, *, refused: str | None) -> str:
        answers = self._answers
        async with self._lock:
            # Somebody else's answer came while this one waited; or the refused token is an old one already.
            shared = self._answers != answers or refused not in (None, self._latest)
            if self._latest is None or not shared:
                self._latest = str(await ask(self._provider, self._principal))
                # Requests that begin at the same time wait for the lock by now, whatever kind of provider it is.
                await anyio.lowlevel.checkpoint()
                self._answers += 1
            return self._latest


def auth_of(given: Any, principal: str | None) -> httpx2.Auth | None:
    """`Server.auth` as httpx has it: an auth object as it is (the SDK's OAuth client is one), a callable as a token."""
    if given is None or isinstance(given, httpx2.Auth):
        return cast("httpx2.Auth", given)
    if callable(given) and not hasattr(given, "async_auth_flow") and not hasattr(given, "auth_flow"):
        return BearerAuth(given, principal)
    return cast("httpx2.Auth", given)
