"""What happens to servers: short root spans, each with a log record, and a counter.

No span lasts as long as a session: the crash that one wants to see would lose it.
"""

from __future__ import annotations

import logging
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, SpanContext, Status, StatusCode

from conduit_telemetry import names
from conduit_telemetry.metrics import instruments
from conduit_telemetry.redaction import Redactor

logger = logging.getLogger("conduit_actors.servers")
_tracer = trace.get_tracer(names.INSTRUMENTATION)
_redactor = Redactor(max_chars=500)
_LEVELS = {
    "crash": logging.WARNING,
    "kill": logging.WARNING,
    "zombie": logging.WARNING,
    "park": logging.ERROR,
    "give_up": logging.ERROR,
}
_FAILURES = {
    "crash": "connection_closed",
    "park": "connection_closed",
    "give_up": "connection_closed",
    "kill": "killed",
    "zombie": "killed",
}


def server_event(
    kind: str,
    server_id: str,
    *,
    reason: str | None = None,
    restarts: int = 0,
    link: SpanContext | None = None,
    backoff: float | None = None,
) -> SpanContext:
    """Record that a server did something: start, ready, crash, restart, backoff, park, probe, unpark, give_up, kill,
    zombie, stop, list_changed. A kill and a zombie are counted as such too.

    Args:
        restarts: how many there were, this one included.
        backoff: seconds until the next attempt.
        link: the span of what caused it; a restart links to its crash.

    Returns:
        The span's context, for such a link.
    """
    attributes: dict[str, Any] = {names.SERVER_ID: server_id, names.SERVER_EVENT: kind, names.RESTARTS: restarts}
    text = None if reason is None else _redactor.text(reason)
    if text is not None:
        attributes[names.SERVER_REASON] = text
    if backoff is not None:
        attributes[names.BACKOFF] = backoff
    span = _tracer.start_span(
        f"{names.SPAN_SERVER} {kind}",
        context=Context(),
        attributes=attributes,
        links=[Link(link)] if link is not None and link.is_valid else None,
    )
    if kind in _FAILURES:
        span.set_attribute(names.ERROR_TYPE, _FAILURES[kind])
        span.set_status(Status(StatusCode.ERROR, text))
    made = instruments()
    made.server_events.add(1, {names.SERVER_ID: server_id, names.SERVER_EVENT: kind})
    if kind == "kill":
        made.kills.add(1, {names.SERVER_ID: server_id})
    elif kind == "zombie":
        made.zombies.add(1, {names.SERVER_ID: server_id})
    # Inside the span, so that the log record carries its trace id.
    with trace.use_span(span, end_on_exit=True):
        logger.log(_LEVELS.get(kind, logging.INFO), "server %s: %s%s", server_id, kind, f" ({text})" if text else "")
    return span.get_span_context()
