"""The instruments. Without a metrics SDK each record is a cheap no-op."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from opentelemetry.metrics import Counter, Histogram, get_meter

from conduit_telemetry import names
from conduit_telemetry.tally import Tally

_MCP_BUCKETS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)
_TOOL_BUCKETS = tuple(0.01 * 2**n for n in range(14))

_SIZE_BUCKETS = tuple(float(4**n) for n in range(4, 14))

_TOOL_NAMES_KEPT = 500
"""Tool names come from servers; beyond so many different ones a metric says "_OTHER", so that series stay bounded."""

_seen_tools: set[str] = set()


class Instruments(NamedTuple):
    """All instruments, made once."""

    calls: Tally
    in_flight: Tally
    execute_tool: Histogram
    operation: Histogram
    session: Histogram
    queue_wait: Histogram
    approval_wait: Histogram
    server_events: Counter
    kills: Counter
    zombies: Counter
    result_size: Histogram
    notices: Counter


@cache
def instruments() -> Instruments:
    """The instruments of the process's meter provider."""
    meter = get_meter(names.INSTRUMENTATION)

    def histogram(name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
        return meter.create_histogram(
            name, unit="s", description=text, explicit_bucket_boundaries_advisory=list(buckets)
        )

    calls, in_flight = Tally(), Tally()
    meter.create_observable_counter(
        names.METRIC_CALLS, [calls.observe], unit="{call}", description="Governed calls by outcome"
    )
    meter.create_observable_up_down_counter(
        names.METRIC_IN_FLIGHT, [in_flight.observe], unit="{call}", description="Calls that run"
    )
    return Instruments(
        calls=calls,
        in_flight=in_flight,
        execute_tool=histogram(names.METRIC_EXECUTE_TOOL_DURATION, "Duration of governed calls", _TOOL_BUCKETS),
        operation=histogram(names.METRIC_OPERATION_DURATION, "Duration of MCP requests", _MCP_BUCKETS),
        session=histogram(names.METRIC_SESSION_DURATION, "Duration of MCP sessions", _MCP_BUCKETS),
        queue_wait=histogram(names.METRIC_QUEUE_WAIT, "Time that calls waited for a place", _MCP_BUCKETS),
        approval_wait=histogram(names.METRIC_APPROVAL_WAIT, "Time that calls waited for an approval", _MCP_BUCKETS),
        server_events=meter.create_counter(names.METRIC_SERVER_EVENTS, unit="{event}", description="Server events"),
        kills=meter.create_counter(names.METRIC_KILLS, unit="{call}", description="Calls that were killed"),
        zombies=meter.create_counter(names.METRIC_ZOMBIES, unit="{actor}", description="Killed and not ended in time"),
        result_size=meter.create_histogram(
            names.METRIC_RESULT_SIZE,
            unit="By",
            description="Size of results as the server sent them",
            explicit_bucket_boundaries_advisory=list(_SIZE_BUCKETS),
        ),
        notices=meter.create_counter(names.METRIC_NOTICES, unit="{event}", description="Things to look at, by kind"),
    )


def bounded_tool(name: str) -> str:
    """The tool's name for a metric attribute, or "_OTHER" once there are too many different ones."""
    if name in _seen_tools:
        return name
    if len(_seen_tools) < _TOOL_NAMES_KEPT:
        _seen_tools.add(name)
        return name
    return "_OTHER"


_SESSION_ATTRIBUTES = (names.PROTOCOL_VERSION, names.NETWORK_PROTOCOL_NAME, names.SERVER_ADDRESS, names.SERVER_PORT)


def record_session(seconds: float, attributes: Mapping[str, Any], error_type: str | None = None) -> None:
    """An MCP session ended after `seconds`.

    Args:
        attributes: those of its requests' spans; what the conventions have on this metric is taken from them.
        error_type: only if the session ended with an error.
    """
    kept = {key: attributes[key] for key in _SESSION_ATTRIBUTES if key in attributes}
    if error_type is not None:
        kept[names.ERROR_TYPE] = error_type
    instruments().session.record(seconds, kept)
