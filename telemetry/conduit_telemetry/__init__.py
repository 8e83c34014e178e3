"""Spans, metrics, names, set-up and redaction for conduit-actors. It knows nothing of actors or MCP objects."""

from conduit_telemetry import names
from conduit_telemetry.calls import CallSpan, RequestSpan, abort_open_spans, stage_span, turn_span
from conduit_telemetry.context import conversation
from conduit_telemetry.metrics import record_session
from conduit_telemetry.notices import notice
from conduit_telemetry.redaction import Redactor
from conduit_telemetry.servers import server_event
from conduit_telemetry.setup import configure

__all__ = [
    "CallSpan",
    "Redactor",
    "RequestSpan",
    "abort_open_spans",
    "configure",
    "conversation",
    "names",
    "notice",
    "record_session",
    "server_event",
    "stage_span",
    "turn_span",
]
