"""`configure`, each time in a process of its own: providers can be set once only. OTLP goes to a real collector."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import anyio
import anyio.to_thread
import pytest
from oteltap.oteltap_http_protobuf_receiver import OtelTapHttpProtobufReceiver
from oteltap.oteltap_http_protobuf_receiver_settings import OtelTapHttpProtobufReceiverSettings

from conduit_telemetry import names

CALL = """
span = telemetry.CallSpan(name="files__read", server_id="files", tool="read", call_id="c", taint=frozenset())
"""


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {key: value for key, value in os.environ.items() if not key.startswith("OTEL_")}
    return subprocess.run(
        [sys.executable, "-c", f"import sys\nimport conduit_telemetry as telemetry\n{code}"],
        env={**clean, **environment},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )


def test_with_nothing_to_export_to_nothing_is_set_up() -> None:
    done = run(
        "from opentelemetry import trace\nprint(telemetry.configure(), type(trace.get_tracer_provider()).__name__)"
    )
    assert done.stdout.split() == ["False", "ProxyTracerProvider"], done.stderr


def test_an_applications_own_provider_stays() -> None:
    done = run(
        "from opentelemetry import trace\n"
        "from opentelemetry.sdk.trace import TracerProvider\n"
        "own = TracerProvider(); trace.set_tracer_provider(own)\n"
        "print(telemetry.configure(exporter='console'), trace.get_tracer_provider() is own)"
    )
    assert done.stdout.split() == ["False", "True"], done.stderr


def test_a_provider_that_is_not_of_the_sdk_stays_too() -> None:
    done = run(
        "from opentelemetry import trace\n"
        "own = trace.NoOpTracerProvider(); trace.set_tracer_provider(own)\n"
        "print(telemetry.configure(exporter='console'), trace.get_tracer_provider() is own)"
    )
    assert done.stdout.split() == ["False", "True"], done.stderr


@pytest.mark.parametrize("environment", [{"OTEL_SDK_DISABLED": "true"}, {"OTEL_TRACES_EXPORTER": "none"}])
def test_the_environment_turns_it_off(environment: dict[str, str]) -> None:
    done = run("print(telemetry.configure())", OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:1", **environment)
    assert done.stdout.split() == ["False"], done.stderr


def test_an_exporter_that_is_not_known_is_an_error_at_once() -> None:
    done = run("telemetry.configure()", OTEL_TRACES_EXPORTER="zipkin")
    assert "ValueError: OTEL_TRACES_EXPORTER is 'zipkin'" in done.stderr


def test_the_console_shows_spans_with_the_services_name() -> None:
    done = run(f"telemetry.configure(service_name='mine')\n{CALL}\nspan.end('ok')", OTEL_TRACES_EXPORTER="console")
    assert '"name": "execute_tool files__read"' in done.stdout, done.stderr
    assert '"service.name": "mine"' in done.stdout


@pytest.mark.parametrize(
    ("end", "code", "error"), [("span.end('ok')", 0, None), ("", 0, "aborted"), ("sys.exit(3)", 3, "aborted")]
)
def test_spans_reach_a_collector_even_if_the_program_ends_with_calls_open(
    end: str, code: int, error: str | None
) -> None:
    async def collect() -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        async with OtelTapHttpProtobufReceiver(OtelTapHttpProtobufReceiverSettings(http_port=port)) as collector:
            program = f"assert telemetry.configure()\n{CALL}\n{end}"
            endpoint = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}", "NO_PROXY": "127.0.0.1"}

            async def start() -> None:
                done = await anyio.to_thread.run_sync(lambda: run(program, **endpoint))
                assert done.returncode == code, done.stderr

            async with anyio.create_task_group() as group:
                group.start_soon(start)
                span = await collector.await_trace(lambda one: one.name == "execute_tool files__read", timeout=40)
        attributes = {one.key: one.value.string_value for one in span.attributes}
        assert attributes.get(names.ERROR_TYPE) == error
        assert span.kind == span.SPAN_KIND_INTERNAL

    # The collector's own code needs asyncio.
    anyio.run(collect, backend="asyncio")
