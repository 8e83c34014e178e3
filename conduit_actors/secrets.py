"""What of a server's configuration must never be seen: the values behind `redactor_for`."""

from __future__ import annotations

from functools import lru_cache
from urllib.parse import urlsplit

from conduit_actors.server import Server
from conduit_telemetry.redaction import Redactor


def redactor_for(server: Server) -> Redactor:
    """A redactor that knows the secrets of one server: header and environment values, and those in its URL."""
    return _redactor(server)


def hide_also(server: Server, before: Server) -> None:
    """Let the redactor of a server know the secrets that it had before, which may still turn up."""
    redactor = redactor_for(server)
    for value in _secrets(before):
        redactor.add_secret(value)


@lru_cache(maxsize=1_024)
def _redactor(server: Server) -> Redactor:
    redactor = Redactor()
    for value in _secrets(server):
        redactor.add_secret(value)
    return redactor


def _secrets(server: Server) -> list[str]:
    values: list[str] = list((server.env or {}).values())
    if server.headers is not None and not callable(server.headers):
        for value in server.headers.values():
            values += [value, *value.split()]
    if server.url is not None:
        parts = urlsplit(server.url)
        values += [value for value in (parts.username, parts.password, parts.query) if value]
        values += [pair.partition("=")[2] for pair in parts.query.split("&")]
    return values
