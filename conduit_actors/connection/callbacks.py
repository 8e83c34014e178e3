"""What a server may ask of its client, and tell it: log messages, roots, elicitation, sampling."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Sequence
from typing import Any

import mcp_types as types

from conduit_actors.secrets import redactor_for
from conduit_actors.server import Server

_MAX_LOG_CHARS = 2_000
_LEVELS: dict[types.LoggingLevel, int] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "notice": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
    "alert": logging.CRITICAL,
    "emergency": logging.CRITICAL,
}


def server_logger(server: Server) -> logging.Logger:
    """The logger that a server's own log messages go to."""
    return logging.getLogger(f"conduit_actors.server.{server.id}")


def wanted_level(server: Server) -> types.LoggingLevel:
    """The lowest level that anybody would see: 2026-07-28 servers send only what was asked for."""
    effective = server_logger(server).getEffectiveLevel()
    for name, level in _LEVELS.items():
        if level >= effective:
            return name
    return "emergency"


def log_messages(server: Server) -> Any:
    """A logging callback that passes messages on to Python's logging, redacted and bounded."""
    logger = server_logger(server)
    redactor = redactor_for(server)

    async def log(params: types.LoggingMessageNotificationParams) -> None:
        level = _LEVELS.get(params.level, logging.INFO)
        if logger.isEnabledFor(level):
            logger.log(level, "%s", redactor.text(str(params.data)[: 2 * _MAX_LOG_CHARS])[:_MAX_LOG_CHARS])

    return log


def roots_of(server: Server) -> Any:
    """A callback that lists the server's configured roots; None if it has none, which means a refusal."""
    if server.roots is None:
        return None
    roots: Sequence[types.Root] = [types.Root.model_validate({"uri": uri}) for uri in server.roots]

    async def list_roots(context: Any) -> types.ListRootsResult:
        return types.ListRootsResult(roots=list(roots))

    return list_roots


def host_callback(callback: Callable[..., Any] | None) -> Any:
    """A host's own callback, plain or async, as the SDK takes it; None means a refusal."""
    if callback is None:
        return None

    async def call(context: Any, params: Any) -> Any:
        answer = callback(context, params)
        return await answer if inspect.isawaitable(answer) else answer

    return call
