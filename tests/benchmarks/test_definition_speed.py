"""How long 5,000 tools take to become definitions, the first time and the second. Measured and printed.

Run it alone and read the table: ``uv run pytest tests/benchmarks/test_definition_speed.py -m benchmark -s``.
"""

from __future__ import annotations

import copy
import time
from typing import Any

import pytest

from conduit_actors import ExposedTool, ToolSet
from conduit_actors.adapters.rendering import Options, render
from schema_material import real_tools
from turns import APIS

pytestmark = pytest.mark.benchmark
TOOLS = 5_000


def many() -> ToolSet:
    known = real_tools()
    return ToolSet(
        ExposedTool(name=f"s__t{i}", server_id="s", tool=f"t{i}", input_schema=copy.deepcopy(known[i % len(known)][1]))
        for i in range(TOOLS)
    )


@pytest.mark.parametrize(("provider", "api"), APIS)
def test_the_second_rendering_costs_nothing(provider: Any, api: Any, capsys: pytest.CaptureFixture[str]) -> None:
    toolset = many()
    times: list[float] = []
    made: list[Any] = []
    for _ in range(2):
        started = time.perf_counter()
        made.append(render(toolset, provider, api, Options()))
        times.append(time.perf_counter() - started)
    assert made[0] is made[1]
    with capsys.disabled():
        print(f"\n{provider} {api or ''}: first {times[0]:.3f} s, then {times[1] * 1000:.2f} ms")
