"""`configure`: OpenTelemetry for an application that has not set it up itself."""

from __future__ import annotations

import atexit
import os
from typing import Literal

from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SimpleSpanProcessor, SpanExporter

from conduit_telemetry.calls import abort_open_spans
from conduit_telemetry.content import capture_content
from conduit_telemetry.context import PrincipalLabel, forward_baggage, record_principals
from conduit_telemetry.redaction import Redactor

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


def configure(
    *,
    service_name: str | None = None,
    exporter: Literal["otlp", "console"] | SpanExporter | None = None,
    baggage_to_servers: bool = False,
    principals: PrincipalLabel = None,
    content: bool | None = None,
    redactor: Redactor | None = None,
) -> bool:
    """Set up tracing, and with OTLP metrics, by the standard ``OTEL_*`` variables. Spans are flushed at exit.

    The last four settings hold in any case; the rest only where the application has no tracer provider of its own.

    Args:
        service_name: used where ``OTEL_SERVICE_NAME`` is not set.
        exporter: "otlp" (needs the extra ``otlp-http`` or ``otlp-grpc``, by ``OTEL_EXPORTER_OTLP_PROTOCOL``),
            "console", or an exporter object. None: as ``OTEL_TRACES_EXPORTER`` says ("otlp", "console", "none"), else
            "otlp" where an ``OTEL_EXPORTER_OTLP_*ENDPOINT`` is set, else nothing.
        baggage_to_servers: send the host's baggage to MCP servers.
        principals: how spans name principals: not at all, "hash", or by a function.
        content: record arguments and results on spans; None: as
            ``OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT`` says.
        redactor: what arguments and results pass before they are recorded.

    Returns:
        False, having set up no exporter, if the application has a tracer provider already, if ``OTEL_SDK_DISABLED`` is
        true, or if there is nothing to export to.

    Raises:
        ImportError: the OTLP exporter's package is not installed.
        ValueError: ``OTEL_TRACES_EXPORTER`` names an exporter that is not known here.
    """
    forward_baggage(baggage_to_servers)
    record_principals(principals)
    capture_content(content, redactor)
    if os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    # Anything but the API's own placeholder is somebody's provider, of the SDK or not.
    if not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        return False
    chosen = exporter if exporter is not None else _exporter_by_environment()
    if chosen is None:
        return False
    attributes = {} if service_name is None or os.environ.get("OTEL_SERVICE_NAME") else {"service.name": service_name}
    resource = Resource.create(attributes)
    provider = TracerProvider(resource=resource)
    if chosen == "console":
        provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter()))
    elif chosen == "otlp":
        provider.add_span_processor(BatchSpanProcessor(_otlp_spans()))
        if os.environ.get("OTEL_METRICS_EXPORTER", "otlp") == "otlp":
            _configure_metrics(resource)
    else:
        provider.add_span_processor(BatchSpanProcessor(chosen))
    trace.set_tracer_provider(provider)
    # Registered after the SDK's own handler, and so run before it: what is open is ended, then all is flushed.
    atexit.register(abort_open_spans)
    return True


def _exporter_by_environment() -> Literal["otlp", "console"] | None:
    named = os.environ.get("OTEL_TRACES_EXPORTER", "").strip()
    if named == "otlp" or named == "console":
        return named
    if named == "none":
        return None
    if named:
        raise ValueError(f"OTEL_TRACES_EXPORTER is {named!r}: known are otlp, console and none")
    return "otlp" if any(os.environ.get(name) for name in _ENDPOINTS) else None


def _over_grpc(signal: str) -> bool:
    general = os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
    return os.environ.get(f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL", general) == "grpc"


def _otlp_spans() -> SpanExporter:
    if _over_grpc("TRACES"):
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter  # pyright: ignore
    else:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # pyright: ignore
    return OTLPSpanExporter()  # pyright: ignore


def _configure_metrics(resource: Resource) -> None:
    if isinstance(metrics.get_meter_provider(), MeterProvider):
        return
    if _over_grpc("METRICS"):
        from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter  # pyright: ignore
    else:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter  # pyright: ignore
    reader = PeriodicExportingMetricReader(OTLPMetricExporter())  # pyright: ignore
    metrics.set_meter_provider(MeterProvider(metric_readers=[reader], resource=resource))
