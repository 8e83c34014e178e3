"""Callables that a host gives instead of values: asked anew each time, plain or async, for a principal or for all."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Callable
from typing import Any, cast

import anyio
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

    The provider is asked for the first token, and again after a 401: once for all requests that were refused with the
    same token. Each refused request is sent once more.
    """

    requires_response_body = False

    def __init__(self, provider: Callable[..., Any], principal: str | None) -> None:
        self._provider = provider
        self._principal = principal
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
        async with self._lock:
            if self._token is None or self._token == refused:
                self._token = str(await ask(self._provider, self._principal))
            return self._token


def auth_of(given: Any, principal: str | None) -> httpx2.Auth | None:
    """`Server.auth` as httpx has it: an auth object as it is (the SDK's OAuth client is one), a callable as a token."""
    if given is None or isinstance(given, httpx2.Auth):
        return cast("httpx2.Auth", given)
    if callable(given) and not hasattr(given, "async_auth_flow") and not hasattr(given, "auth_flow"):
        return BearerAuth(given, principal)
    return cast("httpx2.Auth", given)
