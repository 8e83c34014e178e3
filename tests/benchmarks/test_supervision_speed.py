"""TaskActor against pykka.ThreadingActor, in the same run. Measured and printed; no time is asserted."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import anyio
import pykka
import pytest

from conduit_supervision import ActorSystem, TaskActor

pytestmark = pytest.mark.benchmark
ROUNDS = 2_000


class Task(TaskActor):
    def on_receive(self, message: Any) -> Any:
        return message


class Thread(pykka.ThreadingActor):
    def on_receive(self, message: Any) -> Any:
        return message


def best(function: Callable[[], float]) -> float:
    return min(function() for _ in range(3))


def timed_threads() -> tuple[float, float]:
    ref = Thread.start()

    def asks() -> float:
        started = time.perf_counter()
        for _ in range(ROUNDS):
            ref.ask(1)
        return (time.perf_counter() - started) / ROUNDS

    def lives() -> float:
        started = time.perf_counter()
        for _ in range(ROUNDS // 10):
            one = Thread.start()
            one.ask(1)
            one.stop()
        return (time.perf_counter() - started) / (ROUNDS // 10)

    try:
        return best(asks), best(lives)
    finally:
        ref.stop()


async def timed_tasks() -> tuple[float, float, float]:
    async with ActorSystem():
        ref = Task.start()

        async def asks() -> float:
            started = time.perf_counter()
            for _ in range(ROUNDS):
                await ref.ask(1, block=False)
            return (time.perf_counter() - started) / ROUNDS

        async def lives() -> float:
            started = time.perf_counter()
            for _ in range(ROUNDS):
                one = Task.start()
                await one.ask(1, block=False)
                await one.stop(block=False)
            return (time.perf_counter() - started) / ROUNDS

        ask = min([await asks() for _ in range(3)])
        life = min([await lives() for _ in range(3)])
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        crowd = [Task.start() for _ in range(1_000)]
        for one in crowd:
            await one.started()
        size = (tracemalloc.get_traced_memory()[0] - before) / len(crowd)
        tracemalloc.stop()
        return ask, life, size


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_ask_life_and_size(backend: str, capsys: pytest.CaptureFixture[str]) -> None:
    thread_ask, thread_life = timed_threads()
    task_ask, task_life, size = anyio.run(timed_tasks, backend=backend)
    with capsys.disabled():
        print(
            f"\n{backend}: ask {task_ask * 1e6:.0f} µs against {thread_ask * 1e6:.0f} ({thread_ask / task_ask:.1f}x), "
            f"start+ask+stop {task_life * 1e6:.0f} µs against {thread_life * 1e6:.0f} ({thread_life / task_life:.1f}x), "
            f"an idle actor {size / 1024:.1f} KiB"
        )


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_growth_up_to_ten_thousand(backend: str, capsys: pytest.CaptureFixture[str]) -> None:
    async def main(count: int) -> float:
        async with ActorSystem():
            started = time.perf_counter()
            refs = [Task.start() for _ in range(count)]
            for ref in refs:
                await ref.ask(1, block=False)
            for ref in refs:
                ref.stop(block=False)
            for ref in refs:
                await ref.wait()
            return (time.perf_counter() - started) / count

    per_actor = {count: anyio.run(main, count, backend=backend) for count in (1_000, 10_000)}
    with capsys.disabled():
        print(f"\n{backend}: µs per life with n alive: { ({n: round(t * 1e6) for n, t in per_actor.items()}) }")
