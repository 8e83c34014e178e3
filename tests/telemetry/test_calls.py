"""The spans and metrics of calls, by the package's own public names. Each pitfall of OpenTelemetry's has a test."""

from __future__ import annotations

import gc
import threading
from typing import Any

import anyio
import pytest
from opentelemetry import baggage, context, propagate, trace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

import conduit_telemetry as telemetry
from conduit_telemetry import CallSpan, Redactor, RequestSpan, configure, conversation, names, stage_span


def call(name: str = "files__read", **options: Any) -> CallSpan:
    given: dict[str, Any] = {"server_id": "files", "tool": "read", "call_id": "call_1", "taint": frozenset()}
    return CallSpan(name=name, **{**given, **options})


def only(spans: InMemorySpanExporter, name: str) -> ReadableSpan:
    (span,) = [span for span in spans.get_finished_spans() if span.name == name]
    return span


def test_a_call_is_an_internal_span_with_a_client_span_for_each_attempt(spans: InMemorySpanExporter) -> None:
    span = call()
    with span.current():
        RequestSpan("read", {names.PROTOCOL_VERSION: "2026-07-28"}, 1).end("connection_closed", "gone")
        RequestSpan("read", {names.PROTOCOL_VERSION: "2026-07-28"}, 2).end()
    span.end("ok", attempts=2)
    whole = only(spans, "execute_tool files__read")
    first, second = [one for one in spans.get_finished_spans() if one.name == "tools/call read"]
    assert (whole.kind, first.kind) == (SpanKind.INTERNAL, SpanKind.CLIENT)
    assert first.parent == second.parent == whole.context
    assert second.attributes is not None
    assert second.attributes[names.ATTEMPT] == 2
    # A retried error stays on its attempt.
    assert first.status.status_code is StatusCode.ERROR
    assert second.status.status_code is whole.status.status_code is StatusCode.UNSET
    assert whole.attributes is not None
    assert names.ERROR_TYPE not in whole.attributes


def test_samplers_see_the_operation_the_tool_and_the_agent_at_the_start(spans: InMemorySpanExporter) -> None:
    with conversation("talk-1", agent="planner"):
        span = call()
    readable: Any = span.span
    assert readable.attributes[names.OPERATION_NAME] == "execute_tool"
    assert readable.attributes[names.TOOL_NAME] == "files__read"
    assert readable.attributes[names.AGENT_NAME] == "planner"
    assert readable.attributes[names.CONVERSATION_ID] == "talk-1"
    span.end("ok")
    other = call()
    other.end("ok")
    assert names.CONVERSATION_ID not in (spans.get_finished_spans()[-1].attributes or {})


def test_the_first_outcome_wins_and_a_span_is_exported_once(spans: InMemorySpanExporter, measured: Any) -> None:
    span = call(server_id="ended-once")
    span.end("timeout", error_type="killed")
    span.end("ok")
    span.abort()
    found = only(spans, "execute_tool files__read")
    assert found.attributes is not None
    assert found.attributes[names.ERROR_TYPE] == "killed"
    points = measured.points()[names.METRIC_CALLS]
    counts = {
        point.attributes[names.OUTCOME]: point.value
        for point in points
        if point.attributes[names.SERVER_ID] == "ended-once"
    }
    assert counts == {"timeout": 1}


def test_a_stage_that_is_cancelled_or_killed_does_not_end_unset(spans: InMemorySpanExporter) -> None:
    class Killed(BaseException):
        pass

    with pytest.raises(Killed), stage_span(names.SPAN_APPROVAL):
        raise Killed
    found = only(spans, names.SPAN_APPROVAL)
    assert found.status.status_code is StatusCode.ERROR
    assert found.attributes is not None
    assert found.attributes[names.ERROR_TYPE] == "Killed"


def test_what_is_open_at_the_end_is_ended_as_aborted_and_leaves_no_call_in_flight(
    spans: InMemorySpanExporter, measured: Any
) -> None:
    telemetry.abort_open_spans()
    spans.clear()

    def in_flight() -> float:
        points = measured.points().get(names.METRIC_IN_FLIGHT, [])
        return sum(point.value for point in points if point.attributes[names.SERVER_ID] == "abandoned")

    span = call(server_id="abandoned")
    assert in_flight() == 1
    assert telemetry.abort_open_spans() == 1
    assert in_flight() == 0
    found = only(spans, "execute_tool files__read")
    assert found.attributes is not None
    assert found.attributes[names.ERROR_TYPE] == "aborted"
    del span
    gc.collect()
    assert telemetry.abort_open_spans() == 0


def test_a_rpc_error_code_is_the_error_type_and_the_status_code(spans: InMemorySpanExporter, measured: Any) -> None:
    RequestSpan("read", {}, 1).end("-32602", "bad")
    found = only(spans, "tools/call read")
    assert found.attributes is not None
    assert found.attributes[names.ERROR_TYPE] == found.attributes[names.RESPONSE_STATUS_CODE] == "-32602"
    assert found.status.description == "bad"
    (point,) = measured.points()[names.METRIC_OPERATION_DURATION]
    assert point.attributes[names.RESPONSE_STATUS_CODE] == "-32602"


def test_a_status_is_scrubbed_since_it_is_the_servers_text(spans: InMemorySpanExporter) -> None:
    call().end("protocol_error", error_type="protocol_error", description="no: Bearer abcdefgh12345678 " + "x" * 9_000)
    text = only(spans, "execute_tool files__read").status.description or ""
    assert "abcdefgh" not in text
    assert len(text) < 600


def test_baggage_is_not_sent_unless_asked_for(spans: InMemorySpanExporter) -> None:
    def sent() -> dict[str, str]:
        carrier: dict[str, str] = {}
        with request.sending():
            propagate.inject(carrier)
        return carrier

    token = context.attach(baggage.set_baggage("user", "ann"))
    try:
        request = RequestSpan("read", {}, 1)
        assert set(sent()) == {"traceparent"}
        assert f"{request.span.get_span_context().span_id:016x}" in sent()["traceparent"]
        configure(baggage_to_servers=True)
        assert sent()["baggage"] == "user=ann"
        configure()
        assert "baggage" not in sent()
        assert baggage.get_baggage("user") == "ann"
    finally:
        context.detach(token)
        request.end()


@pytest.mark.anyio
async def test_context_is_carried_in_the_span_where_no_context_follows(spans: InMemorySpanExporter) -> None:
    """A thread of one's own, like a worker behind a queue, does not inherit the context: the span carries it."""
    span = call()
    done = anyio.Event()
    seen: list[Any] = []

    def worker() -> None:
        seen.append(trace.get_current_span().get_span_context().is_valid)
        with span.current():
            RequestSpan("read", {}, 1).end()
        seen.append(trace.get_current_span().get_span_context().is_valid)

    async def in_thread() -> None:
        thread = threading.Thread(target=worker)
        thread.start()
        await anyio.to_thread.run_sync(thread.join)
        done.set()

    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(in_thread)
            await done.wait()
    span.end("ok")
    # Nothing was there before, and nothing is left after: the next message does not run as this call's tenant.
    assert seen == [False, False]
    assert only(spans, "tools/call read").parent == only(spans, "execute_tool files__read").context


@pytest.mark.anyio
async def test_calls_that_run_at_once_do_not_mix(spans: InMemorySpanExporter, caplog: pytest.LogCaptureFixture) -> None:
    async def one(number: int) -> None:
        span = call(f"t{number}")
        with span.current():
            await anyio.lowlevel.checkpoint()
            with stage_span(names.SPAN_HOOKS, f"of-{number}"):
                await anyio.lowlevel.checkpoint()
        span.end("ok")

    async with anyio.create_task_group() as group:
        for number in range(20):
            group.start_soon(one, number)
    for number in range(20):
        whole = only(spans, f"execute_tool t{number}")
        assert only(spans, f"{names.SPAN_HOOKS} of-{number}").parent == whole.context
    assert "different Context" not in caplog.text


def test_the_agents_own_span_of_the_execution_is_added_to(spans: InMemorySpanExporter) -> None:
    attributes = {names.OPERATION_NAME: "execute_tool", names.TOOL_NAME: "files__read", names.TOOL_CALL_ID: "call_1"}
    with trace.get_tracer("agent").start_as_current_span("execute_tool files__read", attributes=attributes) as outer:
        span = call()
        with span.current():
            RequestSpan("read", {}, 1).end()
        span.end("denied", error_type="policy_denied")
        assert outer.is_recording()
        # The same span is not taken twice: a second call of it has a span of its own.
        second = call()
        second.end("ok")
    inner, own = [one for one in spans.get_finished_spans() if one.name == "execute_tool files__read"]
    assert inner.parent == own.context
    assert own.attributes is not None
    assert own.attributes[names.SERVER_ID] == "files"
    assert own.attributes[names.ERROR_TYPE] == "policy_denied"
    assert only(spans, "tools/call read").parent == own.context


@pytest.mark.parametrize(
    "attributes",
    [
        {names.OPERATION_NAME: "invoke_agent", names.TOOL_NAME: "files__read"},
        {names.OPERATION_NAME: "execute_tool", names.TOOL_NAME: "other"},
        {names.OPERATION_NAME: "execute_tool", names.TOOL_NAME: "files__read", names.TOOL_CALL_ID: "call_2"},
    ],
)
def test_another_outer_span_is_only_the_parent(spans: InMemorySpanExporter, attributes: dict[str, str]) -> None:
    with trace.get_tracer("agent").start_as_current_span("agent", attributes=attributes):
        call().end("ok")
    assert only(spans, "execute_tool files__read").parent == only(spans, "agent").context


def test_a_principal_is_named_only_as_the_host_says_and_never_in_metrics(
    spans: InMemorySpanExporter, measured: Any
) -> None:
    def shown() -> Any:
        spans.clear()
        call(principal="ann@example.org").end("ok")
        return (only(spans, "execute_tool files__read").attributes or {}).get(names.PRINCIPAL)

    try:
        assert shown() is None
        configure(principals="hash")
        first = shown()
        assert first
        assert "ann" not in first
        assert first == shown()
        configure(principals=lambda principal: principal.partition("@")[2])
        assert shown() == "example.org"
        configure(principals=lambda principal: None)
        assert shown() is None
    finally:
        configure()
    assert "example.org" not in str(measured.points())


def test_content_is_recorded_only_when_opted_in_and_without_secrets(
    spans: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = Redactor(["canary-5d1f"])
    value = {"path": "a", "api_key": "k-123456", "canary-5d1f": 1, "note": "it is canary-5d1f", "long": "y" * 20_000}

    def shown() -> dict[str, Any]:
        spans.clear()
        span = call()
        span.arguments(value, own)
        span.result(["fine", value], own)
        span.end("ok")
        return dict(only(spans, "execute_tool files__read").attributes or {})

    assert names.TOOL_CALL_ARGUMENTS not in shown()
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "EVENT_ONLY")
    assert names.TOOL_CALL_ARGUMENTS not in shown()
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "SPAN_ONLY")
    try:
        found = shown()
        assert '"path": "a"' in found[names.TOOL_CALL_ARGUMENTS]
        assert "fine" in found[names.TOOL_CALL_RESULT]
        for text in (found[names.TOOL_CALL_ARGUMENTS], found[names.TOOL_CALL_RESULT]):
            assert "canary" not in text
            assert "k-123456" not in text
            assert len(text) < 9_000
        configure(content=False)
        assert names.TOOL_CALL_ARGUMENTS not in shown()
    finally:
        configure()


def test_metrics_are_bounded_whatever_the_tools_are_called(measured: Any) -> None:
    for number in range(1_500):
        call(f"tool-{number}").end("ok", result_bytes=10)
        RequestSpan(f"tool-{number}", {names.SESSION_ID: str(number)}, 1).end()
    points = measured.points()
    for metric in (names.METRIC_EXECUTE_TOOL_DURATION, names.METRIC_OPERATION_DURATION):
        assert len(points[metric]) <= 501
        assert "_OTHER" in {point.attributes[names.TOOL_NAME] for point in points[metric]}
        assert all(names.SESSION_ID not in point.attributes for point in points[metric])
    (size,) = points[names.METRIC_RESULT_SIZE]
    assert (size.count, size.sum) == (1_500, 15_000)


def test_durations_have_the_buckets_of_the_conventions(measured: Any) -> None:
    call().end("ok")
    RequestSpan("read", {}, 1).end()
    telemetry.record_session(2.5, {names.SERVER_ADDRESS: "a", names.SESSION_ID: "s"}, "connection_closed")
    points = measured.points()
    mcp = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)
    assert points[names.METRIC_OPERATION_DURATION][0].explicit_bounds == mcp
    (session,) = points[names.METRIC_SESSION_DURATION]
    assert session.explicit_bounds == mcp
    assert dict(session.attributes) == {names.SERVER_ADDRESS: "a", names.ERROR_TYPE: "connection_closed"}
    tool = points[names.METRIC_EXECUTE_TOOL_DURATION][0].explicit_bounds
    assert (tool[0], tool[-1], len(tool)) == (0.01, 81.92, 14)
