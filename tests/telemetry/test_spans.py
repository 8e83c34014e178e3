"""What a governed call and a server's life leave in OpenTelemetry."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Generator
from typing import Any

import anyio
import pytest
from opentelemetry import baggage, context, trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

import kitchen
from conduit_actors import Allow, Policy, Server, adapters, errors
from support import open_hub, stdio, until

pytestmark = pytest.mark.anyio
_exporter = InMemorySpanExporter()


@pytest.fixture
def spans() -> Generator[InMemorySpanExporter, None, None]:
    provider = trace.get_tracer_provider()
    if not isinstance(provider, TracerProvider):
        provider = TracerProvider()
        trace.set_tracer_provider(provider)
    processor = SimpleSpanProcessor(_exporter)
    provider.add_span_processor(processor)
    _exporter.clear()
    yield _exporter
    _exporter.clear()
    provider._active_span_processor._span_processors = tuple(  # pyright: ignore
        one
        for one in provider._active_span_processor._span_processors
        if one is not processor  # pyright: ignore
    )


def named(spans: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    return [span for span in spans.get_finished_spans() if span.name == name]


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


async def test_one_call_is_one_tree_below_the_agents_span(spans: InMemorySpanExporter) -> None:
    async with open_hub(stdio()) as hub:
        with trace.get_tracer("agent").start_as_current_span("agent") as agent:
            await hub.call_tool("kitchen__add", {"left": 1, "right": 2}, call_id="call_1", taint=["web"])
    (call,) = named(spans, "execute_tool kitchen__add")
    (request,) = named(spans, "tools/call add")
    assert call.parent is not None
    assert call.parent.span_id == agent.get_span_context().span_id
    assert request.parent is not None
    assert request.parent.span_id == call.get_span_context().span_id  # pyright: ignore
    assert (call.kind, request.kind) == (SpanKind.INTERNAL, SpanKind.CLIENT)
    assert call.status.status_code is request.status.status_code is StatusCode.UNSET
    found = attributes(call)
    assert found["gen_ai.operation.name"] == "execute_tool"
    assert found["gen_ai.tool.name"] == "kitchen__add"
    assert found["gen_ai.tool.call.id"] == "call_1"
    assert found["conduit.outcome"] == "ok"
    assert found["conduit.policy.action"] == "allow"
    assert found["conduit.taint"] == ("web",)
    sent = attributes(request)
    assert sent["mcp.method.name"] == "tools/call"
    assert sent["network.transport"] == "pipe"
    assert sent["mcp.protocol.version"]
    assert sent["jsonrpc.request.id"]


async def test_the_sdks_own_span_is_replaced_and_not_doubled(spans: InMemorySpanExporter) -> None:
    async with open_hub(stdio()) as hub:
        await hub.call_tool("kitchen__add", {"left": 1, "right": 2})
    assert [span.name for span in spans.get_finished_spans() if "MCP send tools/call" in span.name] == []
    assert len(named(spans, "tools/call add")) == 1


async def test_the_server_gets_the_requests_trace_and_no_baggage(spans: InMemorySpanExporter) -> None:
    async with open_hub(stdio()) as hub:
        token = context.attach(baggage.set_baggage("user", "ann"))
        try:
            result = await hub.call_tool("kitchen__meta")
        finally:
            context.detach(token)
    (request,) = named(spans, "tools/call meta")
    assert f"{request.get_span_context().span_id:016x}" in result.text  # pyright: ignore
    assert "baggage" not in result.text
    assert "ann" not in result.text


@pytest.mark.parametrize(
    ("tool", "arguments", "options", "outcome", "error"),
    [
        ("k__fail", {}, {}, "tool_error", "tool_error"),
        ("k__sleep", {"seconds": 60}, {"call_timeout": 0.2}, "timeout", "timeout"),
        ("k__sleep", {"seconds": 60}, {"timeout": 0.2}, "timeout", "timeout"),
        ("k__add", {"left": "x"}, {}, "invalid_arguments", "invalid_arguments"),
        ("k__echo", {}, {}, "denied", "policy_denied"),
    ],
)
async def test_a_failure_is_an_error_with_its_type(
    spans: InMemorySpanExporter, tool: str, arguments: Any, options: Any, outcome: str, error: str
) -> None:
    policy = Policy(allow=["*"], deny=["k/echo"])
    async with open_hub(Server("k", transport=kitchen.build()), policy=policy) as hub:
        if outcome == "tool_error":
            await hub.call_tool(tool, arguments)
        else:
            with pytest.raises(errors.ConduitError):
                await hub.call_tool(tool, arguments, **options)
    (call,) = named(spans, f"execute_tool {tool}")
    assert attributes(call)["conduit.outcome"] == outcome
    assert attributes(call)["error.type"] == error
    assert call.status.status_code is StatusCode.ERROR


async def test_a_cancelled_call_ends_its_spans_as_cancelled(spans: InMemorySpanExporter) -> None:
    async with open_hub(Server("k", transport=kitchen.build())) as hub:
        with anyio.move_on_after(0.2):
            await hub.call_tool("k__sleep", {"seconds": 60})
    (call,) = named(spans, "execute_tool k__sleep")
    # The in-process server has a span of that name too, of kind SERVER.
    (request,) = [span for span in named(spans, "tools/call sleep") if span.kind is SpanKind.CLIENT]
    assert attributes(call)["error.type"] == attributes(request)["error.type"] == "cancelled"


async def test_waiting_for_an_approval_is_a_span_of_its_own(spans: InMemorySpanExporter) -> None:
    server = Server("k", transport=kitchen.build())
    async with open_hub(server, policy=Policy(ask=["*"]), on_ask=lambda request: Allow()) as hub:
        await hub.call_tool("k__echo")
    (call,) = named(spans, "execute_tool k__echo")
    (approval,) = named(spans, "conduit.approval")
    assert approval.parent is not None
    assert approval.parent.span_id == call.get_span_context().span_id  # pyright: ignore


async def test_a_turn_of_several_calls_is_a_span_around_them(spans: InMemorySpanExporter) -> None:
    async with open_hub(Server("k", transport=kitchen.build())) as hub:
        blocks = [{"type": "tool_use", "id": str(n), "name": "k__echo", "input": {}} for n in range(3)]
        await adapters.execute_tool_calls(hub, "anthropic", {"content": blocks})
    (turn,) = named(spans, "conduit.turn")
    calls = named(spans, "execute_tool k__echo")
    assert len(calls) == 3
    assert {span.parent.span_id for span in calls if span.parent} == {turn.get_span_context().span_id}  # pyright: ignore


async def test_a_servers_life_is_told_and_a_restart_links_to_its_crash(spans: InMemorySpanExporter) -> None:
    async with open_hub(stdio()) as hub:
        os.kill(hub.status()["kitchen"].pid or 0, signal.SIGKILL)
        await until(lambda: hub.status()["kitchen"].restarts == 1 and hub.status()["kitchen"].state == "ready")
    kinds = [
        span.name.removeprefix("conduit.server ")
        for span in spans.get_finished_spans()
        if span.name.startswith("conduit.server")
    ]
    assert "backoff" in kinds
    assert [kind for kind in kinds if kind != "backoff"] == ["start", "ready", "crash", "restart", "ready", "stop"]
    (crash,) = named(spans, "conduit.server crash")
    (restart,) = named(spans, "conduit.server restart")
    assert crash.status.status_code is StatusCode.ERROR
    assert "signal 9" in attributes(crash)["conduit.server.reason"]
    assert restart.links[0].context.span_id == crash.get_span_context().span_id  # pyright: ignore


async def test_no_secret_is_seen_anywhere(spans: InMemorySpanExporter, caplog: pytest.LogCaptureFixture) -> None:
    canary = "canary-7f3a9c1e"
    caplog.set_level(logging.DEBUG)
    code = f"import os, sys; print(os.environ['TOKEN'], file=sys.stderr); import runpy; runpy.run_path({str(kitchen.__file__)!r}, run_name='__main__')"
    import sys

    good = Server("good", command=sys.executable, args=["-c", code], env={"TOKEN": canary})
    dies = Server(
        "dies",
        command=sys.executable,
        args=["-c", code.split(";")[0] + "; print(os.environ['TOKEN'], file=sys.stderr)"],
        env={"TOKEN": canary},
    )
    web = Server(
        "web", url=f"http://user:{canary}@127.0.0.1:1/mcp?key={canary}", headers={"Authorization": f"Bearer {canary}"}
    )
    seen: list[str] = []
    async with open_hub(good, dies, web) as hub:
        for name in ("dies__x", "web__x"):
            with pytest.raises(errors.ConduitError) as caught:
                await hub.call_tool(name)
            seen += [str(caught.value), repr(caught.value)]
        await hub.call_tool("good__echo", {"text": canary})
        seen += [repr(hub.status()), str(hub.status()), repr(good), repr(web)]
        assert any("redacted" in line for line in hub.status()["good"].stderr)
    seen += [
        f"{span.name} {span.attributes} {span.events} {span.status.description}" for span in spans.get_finished_spans()
    ]
    seen += [record.getMessage() for record in caplog.records if record.name.startswith("conduit")]
    assert not [text for text in seen if canary in text]
