"""One clear line for why a connection could not be opened, or ended."""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Sequence

import httpx2
from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED

from conduit_actors.errors import ConduitError, ServerUnavailable, bounded
from conduit_actors.server import Server, public_url


def leaves(error: BaseException) -> Iterator[BaseException]:
    """The single exceptions in a tree of exception groups."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
            yield from leaves(inner)  # pyright: ignore[reportUnknownArgumentType]
    else:
        yield error


def unavailable(
    server: Server,
    error: BaseException,
    *,
    status: int | None = None,
    ended: ServerUnavailable | None = None,
    stderr: Sequence[str] = (),
) -> ServerUnavailable:
    """The error that a failed connection is known by.

    Args:
        status: the last HTTP status that was not a success.
        ended: what the transport itself says of its end.
    """
    causes = list(leaves(error))
    for cause in causes:
        if isinstance(cause, ServerUnavailable):
            return _with_stderr(cause, server, stderr)
    cause = next((one for one in causes if isinstance(one, (httpx2.HTTPError, OSError, MCPError))), causes[0])
    if ended is not None and isinstance(cause, MCPError) and cause.error.code == CONNECTION_CLOSED:
        return _with_stderr(ended, server, stderr)
    text = f"the server {server.id!r} {_describe(server, cause, status)}"
    return _with_stderr(ServerUnavailable(bounded(text, 500), server_id=server.id), server, stderr)


def _describe(server: Server, cause: BaseException, status: int | None) -> str:
    where = public_url(server.url) if server.url else "its program"
    if isinstance(cause, TimeoutError):
        return f"did not come up within {server.connect_timeout:g} s"
    if isinstance(cause, httpx2.ConnectError):
        inner = cause.__cause__ or cause.__context__
        if isinstance(inner, ssl.SSLError):
            return f"cannot be reached at {where}: TLS: {inner.reason}"
        return f"cannot be reached at {where}: {cause}"
    if isinstance(cause, httpx2.HTTPError):
        return f"cannot be reached at {where}: {type(cause).__name__}"
    if status is not None and isinstance(cause, MCPError):
        return f"answered HTTP status {status} at {where}"
    if isinstance(cause, MCPError):
        return f"refused the handshake: {cause.error.message}"
    if isinstance(cause, ConduitError):
        return cause.message
    return f"failed to connect: {type(cause).__name__}: {cause}"


def _with_stderr(error: ServerUnavailable, server: Server, stderr: Sequence[str]) -> ServerUnavailable:
    lines = [line for line in stderr if line.strip()]
    if not lines:
        return error
    return ServerUnavailable(f"{error.message}; its last words: {lines[-1][:300]}", server_id=server.id)
