"""The cost of a governed call, as a ratio to the bare SDK's in the same run. Measured and printed; nothing is asserted.

Run it alone and read the table: ``uv run pytest tests/benchmarks -m benchmark -s``.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from mcp import Client as BareClient
from mcp import StdioServerParameters
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import kitchen
from conduit_actors import Server
from support import KITCHEN, open_hub, stdio

pytestmark = [pytest.mark.anyio, pytest.mark.benchmark]
ROUNDS = 300


async def interleaved(*calls: Callable[[], Awaitable[Any]]) -> list[float]:
    """The median seconds of each call. They take turns, so that a slow moment of the machine hits all alike."""
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(ROUNDS):
        for index, call in enumerate(calls):
            started = time.perf_counter()
            await call()
            times[index].append(time.perf_counter() - started)
    return [statistics.median(one[ROUNDS // 10 :]) for one in times]


def traced() -> None:
    """Tracing on, as in production; once per process."""
    if not isinstance(trace.get_tracer_provider(), TracerProvider):
        provider = TracerProvider()
        provider.add_span_processor(BatchSpanProcessor(InMemorySpanExporter()))
        trace.set_tracer_provider(provider)


@pytest.mark.parametrize("where", ["in process", "stdio"])
async def test_a_governed_traced_call_against_the_bare_client(
    where: str, anyio_backend: str, capsys: pytest.CaptureFixture[str]
) -> None:
    traced()
    arguments = {"left": 1, "right": 2}
    if where == "stdio":
        bare = BareClient(StdioServerParameters(command=sys.executable, args=[str(KITCHEN)]))
        server = stdio("k")
    else:
        bare = BareClient(kitchen.build())
        server = Server("k", transport=kitchen.build())
    async with bare, open_hub(server) as hub:
        bare_time, governed = await interleaved(
            lambda: bare.call_tool("add", arguments), lambda: hub.call_tool("k__add", arguments)
        )
    with capsys.disabled():
        ratio = governed / bare_time
        print(
            f"\n{where}, {anyio_backend}: bare {bare_time * 1e6:.0f} µs, governed {governed * 1e6:.0f} µs, "
            f"ratio {ratio:.2f}"
        )
