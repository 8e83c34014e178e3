"""What the libraries below log of a connection is redacted too: they know URLs with keys in their query.

Their loggers get a filter. It changes only what is logged on behalf of one of our connections.
"""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

from conduit_actors.secrets import redactor_for
from conduit_actors.server import Server

_LOGGERS = (
    "client",  # of mcp.client.session
    "httpcore2.connection",
    "httpcore2.http11",
    "httpcore2.http2",
    "httpcore2.proxy",
    "httpx2",
    "mcp.client.auth.oauth2",
    "mcp.client.streamable_http",
    "mcp.shared.jsonrpc_dispatcher",
)


class HasServer(Protocol):
    """Whoever knows the server as it is configured now: its credentials may be replaced."""

    @property
    def server(self) -> Server: ...


_logged: ContextVar[HasServer | None] = ContextVar("conduit_logged_connection", default=None)


@contextmanager
def redacted_logs(connection: HasServer) -> Generator[None]:
    """Secrets of the connection's server are taken out of what is logged in here, and in the tasks started in here."""
    token = _logged.set(connection)
    try:
        yield
    finally:
        _logged.reset(token)


def _redact(record: logging.LogRecord) -> bool:
    connection = _logged.get()
    if connection is not None:
        record.msg, record.args = redactor_for(connection.server).text(record.getMessage()), None
    return True


for _name in _LOGGERS:
    logging.getLogger(_name).addFilter(_redact)
