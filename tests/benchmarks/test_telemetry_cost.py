"""What telemetry adds to a governed call, without an SDK and with one. Measured and printed; no time is asserted.

Goals: at most 15 µs a call without an SDK, 120 µs with the SDK and a batch processor.
Run it alone and read the table: ``uv run pytest tests/benchmarks/test_telemetry_cost.py -m benchmark -s``.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.benchmark

# Each in a process of its own, since the providers can be set once only.
PROGRAM = """
import statistics, sys, time
if sys.argv[1] != "none":
    from opentelemetry import metrics, trace
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(InMemorySpanExporter()))
    trace.set_tracer_provider(provider)
    if sys.argv[1] == "traces and metrics":
        metrics.set_meter_provider(MeterProvider(metric_readers=[InMemoryMetricReader()]))
from conduit_telemetry import CallSpan, RequestSpan, names
attributes = {names.PROTOCOL_VERSION: "2026-07-28", names.NETWORK_TRANSPORT: "pipe"}
def one():
    span = CallSpan(name="files__read", server_id="files", tool="read", call_id="c", taint=frozenset())
    with span.current():
        span.decided("allow", "files/*")
        request = RequestSpan("read", attributes, 1)
        with request.sending():
            pass
        request.end()
    span.end("ok", attempts=1, result_bytes=100)
times = []
for _ in range(3_000):
    started = time.perf_counter()
    one()
    times.append(time.perf_counter() - started)
print(statistics.median(times[500:]) * 1e6)
"""


@pytest.mark.parametrize(("mode", "goal"), [("none", 15), ("traces", 120), ("traces and metrics", 120)])
def test_the_spans_and_metrics_of_one_call(mode: str, goal: int, capsys: pytest.CaptureFixture[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, mode], capture_output=True, text=True, timeout=50, check=False
    )
    assert done.returncode == 0, done.stderr
    with capsys.disabled():
        print(f"\ntelemetry of a call, {mode}: {float(done.stdout):.1f} µs (goal {goal})")
