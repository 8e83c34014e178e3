"""The SDK's own client span is replaced by ours, not doubled.

`mcp` opens a span of its own around each request, with a name and attributes that the conventions do not have, and
offers no way to turn it off. Inside `own_span` it is passed through: what the SDK would set on its span is set on the
current one. This replaces one private name of the SDK (`mcp.shared.jsonrpc_dispatcher.otel_span`); a test pins it.
Requests outside, other users' of the SDK among them, are not affected.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from typing import Any

from mcp.shared import jsonrpc_dispatcher
from opentelemetry import trace

_own: ContextVar[bool] = ContextVar("conduit_own_span", default=False)
_sdk_span = jsonrpc_dispatcher.otel_span  # pyright: ignore[reportPrivateImportUsage]


def begin_own_span() -> Token[bool]:
    """From here to `end_own_span`, in one coroutine frame, requests are covered by the current span."""
    return _own.set(True)


def end_own_span(token: Token[bool]) -> None:
    """See `begin_own_span`."""
    _own.reset(token)


@contextmanager
def _otel_span(name: str, **options: Any) -> Generator[Any]:
    if not _own.get():
        with _sdk_span(name, **options) as span:
            yield span
        return
    span = trace.get_current_span()
    if span.is_recording() and options.get("attributes"):
        span.set_attributes(options["attributes"])
    yield span


jsonrpc_dispatcher.otel_span = _otel_span  # pyright: ignore[reportPrivateImportUsage]
