"""The guide lists what there is, and the code says nothing that is not in the guide."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args

from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from conduit_telemetry import CallSpan, RequestSpan, names, notice, record_session, server_event, stage_span, turn_span
from conduit_telemetry.metrics import instruments
from conduit_telemetry.notices import Notice

GUIDE = (Path(__file__).parents[2] / "docs" / "telemetry.md").read_text()
LISTED = set(re.findall(r"`([^`\s]+)[^`]*`", GUIDE))
NOT_EMITTED = {"INSTRUMENTATION", "EVENT_PREFIX"}


def test_every_name_is_in_the_guide() -> None:
    known = {
        value
        for name, value in vars(names).items()
        if name.isupper() and isinstance(value, str) and name not in NOT_EMITTED
    }
    known |= set(names.ERROR_TYPES.values())
    known |= {names.EVENT_PREFIX + kind for kind in get_args(Notice)}
    assert len(known) > 50
    assert known - LISTED == set()


def test_the_guide_lists_no_attribute_or_metric_that_there_is_not() -> None:
    known = {value for value in vars(names).values() if isinstance(value, str)}
    known |= {names.EVENT_PREFIX + kind for kind in get_args(Notice)}
    listed = {name for name in LISTED if re.match(r"(gen_ai|mcp|jsonrpc|rpc|network|server|conduit)\.[a-z_.]+$", name)}
    assert len(listed) > 40
    assert listed - known == set()


def test_what_is_emitted_is_in_the_guide(spans: InMemorySpanExporter, measured: Any) -> None:
    with turn_span("anthropic", 2):
        span = CallSpan(name="f__r", server_id="f", tool="r", call_id="c", taint=frozenset({"web"}))
        with span.current():
            span.decided("ask", "f/*")
            with stage_span(names.SPAN_APPROVAL):
                notice("pin_changed", server_id="f", tool="r", reason="description")
            with stage_span(names.SPAN_HOOKS, "before"):
                pass
            RequestSpan("r", {names.PROTOCOL_VERSION: "2026-07-28"}, 2).end("-32603", "oh")
            instruments().queue_wait.record(0.1)
        span.end("protocol_error", error_type="-32603", attempts=2, truncated=True, result_bytes=3)
    for kind in ("start", "crash", "restart", "kill", "zombie"):
        server_event(kind, "f", reason="why", backoff=1.0)
    record_session(1.0, {names.PROTOCOL_VERSION: "2026-07-28"})
    found = spans.get_finished_spans()
    emitted = {span.name.split()[0] for span in found}
    for span_ in found:
        emitted |= set(span_.attributes or {})
        for event in span_.events:
            emitted |= {event.name, *(event.attributes or {})}
    points = measured.points()
    emitted |= set(points)
    for one in points.values():
        for point in one:
            emitted |= set(point.attributes)
    assert {getattr(names, name) for name in vars(names) if name.startswith("METRIC_")} <= emitted
    assert emitted - LISTED == set()
