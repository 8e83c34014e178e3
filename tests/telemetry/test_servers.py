"""The spans, logs and counters of what happens to servers, and of what an operator should look at."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from conduit_telemetry import names, notice, server_event


def test_a_restart_is_a_root_span_that_links_to_its_crash(spans: InMemorySpanExporter) -> None:
    with trace.get_tracer("agent").start_as_current_span("agent"):
        cause = server_event("crash", "files", reason="signal 9", restarts=1)
        server_event("backoff", "files", restarts=1, backoff=0.5, link=cause)
        server_event("restart", "files", restarts=1, link=cause)
    crash, pause, restart, _ = spans.get_finished_spans()
    assert [one.parent for one in (crash, pause, restart)] == [None, None, None]
    assert [link.context for link in restart.links] == [crash.context]
    assert pause.attributes is not None
    assert pause.attributes[names.BACKOFF] == 0.5
    assert crash.attributes is not None
    assert crash.attributes[names.SERVER_REASON] == "signal 9"
    assert crash.status.status_code is StatusCode.ERROR
    assert restart.status.status_code is StatusCode.UNSET


def test_the_log_record_is_written_inside_the_span(
    spans: InMemorySpanExporter, caplog: pytest.LogCaptureFixture
) -> None:
    """So that whatever puts trace ids on log records finds them."""
    seen: list[int] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            seen.append(trace.get_current_span().get_span_context().span_id)

    handler = Handler()
    logger = logging.getLogger("conduit_actors.servers")
    logger.addHandler(handler)
    try:
        event = server_event("park", "files", reason="Bearer abcdefgh12345678")
    finally:
        logger.removeHandler(handler)
    assert seen == [event.span_id]
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert "abcdefgh" not in record.getMessage()
    (span,) = spans.get_finished_spans()
    assert "abcdefgh" not in f"{span.attributes} {span.status.description}"


@pytest.mark.parametrize(("kind", "metric"), [("kill", names.METRIC_KILLS), ("zombie", names.METRIC_ZOMBIES)])
def test_kills_and_zombies_are_counted(measured: Any, kind: str, metric: str) -> None:
    server_event(kind, "files")
    server_event(kind, "files")
    server_event("start", "files")
    points = measured.points()
    assert [point.value for point in points[metric]] == [2]
    events = {point.attributes[names.SERVER_EVENT]: point.value for point in points[names.METRIC_SERVER_EVENTS]}
    assert events == {kind: 2, "start": 1}


def test_a_notice_is_an_event_and_a_count_without_the_servers_words(spans: InMemorySpanExporter, measured: Any) -> None:
    with trace.get_tracer("agent").start_as_current_span("agent"):
        notice("strict_fallback", server_id="files", tool="read", reason="token sk-abcdefghijklmnop")
    (span,) = spans.get_finished_spans()
    (event,) = span.events
    assert event.name == "conduit.strict_fallback"
    assert event.attributes is not None
    assert event.attributes[names.TOOL_NAME] == "read"
    assert "abcdefgh" not in str(event.attributes)
    (point,) = measured.points()[names.METRIC_NOTICES]
    assert dict(point.attributes) == {names.SERVER_ID: "files", names.NOTICE: "strict_fallback"}
    notice("dead_policy_rule", reason="allow nope/*")
    assert [point.value for point in measured.points()[names.METRIC_NOTICES]] == [1]
