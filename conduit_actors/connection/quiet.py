"""What the libraries below log of a connection is redacted too: they know URLs with keys in their query.

Their loggers get a filter. It changes only what is logged on behalf of one of our connections.
"""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

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

_server: ContextVar[Server | None] = ContextVar("conduit_logged_server", default=None)


@contextmanager
def redacted_logs(server: Server) -> Generator[None]:
    """Secrets of the server are taken out of what is logged in here, and in the tasks started in here."""
    token = _server.set(server)
    try:
        yield
    finally:
        _server.reset(token)


def _redact(record: logging.LogRecord) -> bool:
    server = _server.get()
    if server is not None:
        record.msg, record.args = redactor_for(server).text(record.getMessage()), None
    return True


for _name in _LOGGERS:
    logging.getLogger(_name).addFilter(_redact)
