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

from conduit_telemetry.calls import abort_open_spans, forward_baggage


def configure(
    *,
    service_name: str | None = None,
    exporter: Literal["otlp", "console"] | SpanExporter | None = None,
    baggage_to_servers: bool = False,
) -> bool:
    """Set up tracing, and with OTLP metrics, by the standard ``OTEL_*`` variables. Spans are flushed at exit.

    Args:
        service_name: used where ``OTEL_SERVICE_NAME`` is not set.
        exporter: "otlp" (the default where an ``OTEL_EXPORTER_OTLP_*ENDPOINT`` is set; needs the extra ``otlp-http`` or
            ``otlp-grpc``, by ``OTEL_EXPORTER_OTLP_PROTOCOL``), "console", or an exporter object.
        baggage_to_servers: send the host's baggage to MCP servers.

    Returns:
        False, having changed nothing but the baggage setting, if the application has a tracer provider already, if
        ``OTEL_SDK_DISABLED`` is true, or if there is nothing to export to.

    Raises:
        ImportError: the OTLP exporter's package is not installed.
    """
    forward_baggage(baggage_to_servers)
    if os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    if isinstance(trace.get_tracer_provider(), TracerProvider):
        return False
    if exporter is None:
        endpoints = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
        if not any(os.environ.get(name) for name in endpoints):
            return False
        exporter = "otlp"
    attributes = {} if service_name is None or os.environ.get("OTEL_SERVICE_NAME") else {"service.name": service_name}
    resource = Resource.create(attributes)
    provider = TracerProvider(resource=resource)
    if exporter == "console":
        provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter()))
    elif exporter == "otlp":
        provider.add_span_processor(BatchSpanProcessor(_otlp_spans()))
        _configure_metrics(resource)
    else:
        provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    # Registered after the SDK's own handler, and so run before it: what is open is ended, then all is flushed.
    atexit.register(abort_open_spans)
    return True


def _over_grpc() -> bool:
    return os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf") == "grpc"


def _otlp_spans() -> SpanExporter:
    if _over_grpc():
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter  # pyright: ignore
    else:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # pyright: ignore
    return OTLPSpanExporter()  # pyright: ignore


def _configure_metrics(resource: Resource) -> None:
    if _over_grpc():
        from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter  # pyright: ignore
    else:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter  # pyright: ignore
    reader = PeriodicExportingMetricReader(OTLPMetricExporter())  # pyright: ignore
    metrics.set_meter_provider(MeterProvider(metric_readers=[reader], resource=resource))
