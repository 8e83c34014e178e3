"""One clear line for why a connection could not be opened, or ended."""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Sequence
from typing import cast

import httpx2
from mcp.shared.exceptions import MCPError
from mcp_types import METHOD_NOT_FOUND
from pydantic import ValidationError

from conduit_actors.errors import ConduitError, ServerUnavailable, bounded
from conduit_actors.secrets import redactor_for
from conduit_actors.server import Server, public_url

_MAX_CHARS = 500
_MAX_STDERR_CHARS = 300
_SDKS_404 = (METHOD_NOT_FOUND, "Not Found")
"""What the SDK (mcp 2.3) makes of HTTP status 404 before there is a session."""


def leaves(error: BaseException) -> Iterator[BaseException]:
    """The single exceptions in a tree of exception groups."""
    if isinstance(error, BaseExceptionGroup):
        for inner in cast("BaseExceptionGroup[BaseException]", error).exceptions:
            yield from leaves(inner)
    else:
        yield error


def unavailable(server: Server, error: BaseException, *, stderr: Sequence[str] = ()) -> ServerUnavailable:
    """The error that a failed connection is known by: one line with the server and the cause, without secrets.

    Args:
        stderr: what a program wrote there last.
    """
    cause = _telling(error)
    if isinstance(cause, ServerUnavailable):
        text = cause.message
    else:
        text = f"the server {server.id!r} {_describe(server, cause)}"
    lines = [line for line in stderr if line.strip()]
    if lines:
        text = f"{bounded(text, _MAX_CHARS)}; its last words: {lines[-1][:_MAX_STDERR_CHARS]}"
    made = ServerUnavailable(bounded(redactor_for(server).text(text), 2 * _MAX_CHARS), server_id=server.id)
    made.__cause__ = cause
    return made


def _telling(error: BaseException) -> BaseException:
    causes = list(leaves(error))
    for kind in (ConduitError, httpx2.HTTPError, OSError, MCPError):
        for cause in causes:
            if isinstance(cause, kind):
                return cause
    return causes[0]


def _describe(server: Server, cause: BaseException) -> str:
    where = public_url(server.url) if server.url else "its program"
    if isinstance(cause, httpx2.ConnectError):
        inner = _inner(cause, ssl.SSLError)
        return f"cannot be reached at {where}: " + (f"TLS: {inner.reason}" if inner is not None else str(cause))
    if isinstance(cause, httpx2.HTTPError):
        return f"cannot be reached at {where}: {type(cause).__name__} {cause}".rstrip()
    if isinstance(cause, TimeoutError):
        return f"did not come up within {server.connect_timeout:g} s"
    if isinstance(cause, MCPError) and server.url and (cause.error.code, cause.error.message) == _SDKS_404:
        return f"answered HTTP status 404: there is no MCP endpoint at {where}"
    if isinstance(cause, MCPError):
        return f"refused the handshake: {cause.error.message}"
    if isinstance(cause, ValidationError):
        return "answered the handshake with something that is not MCP"
    if isinstance(cause, ConduitError):
        return f"cannot be connected: {cause.message}"
    return f"cannot be connected: {type(cause).__name__}: {cause}"


def _inner(error: BaseException, kind: type[ssl.SSLError]) -> ssl.SSLError | None:
    """The first error of `kind` among those that led to `error`."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, kind):
            return seen
        seen = seen.__cause__ or seen.__context__
    return None
