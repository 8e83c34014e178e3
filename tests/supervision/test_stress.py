"""Many actors, many deaths, and orders of events that nobody thought of."""

from __future__ import annotations

import random
import threading
from typing import Any

import anyio
import pykka
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conduit_supervision import (
    ActorSystem,
    Backoff,
    ChildSpec,
    DynamicSupervisor,
    RestartIntensity,
    Supervisor,
    TaskActor,
)

BACKENDS = pytest.mark.parametrize("backend", ["asyncio", "trio"])


class Worker(TaskActor):
    registered = False

    async def on_receive(self, message: Any) -> Any:
        if message == "hang":
            await anyio.sleep_forever()
        if message == "error":
            raise ValueError
        await anyio.lowlevel.checkpoint()
        return message


class OneShot(Worker):
    one_shot = True


class Registered(Worker):
    registered = True


@pytest.mark.slow
@BACKENDS
def test_ten_thousand_live_actors(backend: str) -> None:
    async def main() -> None:
        async with ActorSystem() as system:
            refs = [Registered.start() for _ in range(10_000)]
            with anyio.fail_after(60):
                answers = [ref.ask(number, block=False) for number, ref in enumerate(refs)]
                for number, answer in enumerate(answers):
                    assert await answer == number
            assert len(system.actors()) == 10_000
            assert pykka.ActorRegistry.get_by_urn(refs[5_000].actor_urn) is refs[5_000]
        assert not any(ref.is_alive() for ref in refs)
        assert not [ref for ref in pykka.ActorRegistry.get_all() if ref.actor_class is Registered]

    anyio.run(main, backend=backend)


@pytest.mark.slow
@pytest.mark.timeout(120)
@BACKENDS
def test_fifty_thousand_short_lived_workers_a_third_of_them_killed(backend: str) -> None:
    async def main() -> None:
        async with ActorSystem() as system:
            dyn = DynamicSupervisor.start()
            await dyn.started()
            supervisor = dyn.actor()
            assert supervisor is not None
            done = killed = 0
            for _ in range(25):
                refs = [supervisor.start_worker(OneShot()) for _ in range(1_000)]
                answers = [
                    ref.ask("hang" if number % 3 == 0 else number, block=False) for number, ref in enumerate(refs)
                ]
                await anyio.lowlevel.checkpoint()
                for ref in refs[::3]:
                    ref.kill()
                for answer in answers:
                    try:
                        await answer
                        done += 1
                    except pykka.ActorDeadError:
                        killed += 1
            assert (done, killed) == (25 * 666, 25 * 334)
            with anyio.fail_after(10):
                while supervisor.workers:
                    await anyio.lowlevel.checkpoint()
            assert system.zombies() == []

    anyio.run(main, backend=backend)
    anyio.run(main, backend=backend)


@BACKENDS
def test_a_restart_storm_of_two_hundred_children(backend: str) -> None:
    async def main() -> None:
        async with ActorSystem() as system:
            sup = Supervisor.start(
                children=[ChildSpec(number, Worker) for number in range(200)],
                intensity=RestartIntensity(10_000, 60),
                backoff=Backoff(initial=0.001, maximum=0.01),
            )
            await sup.started()
            first = [ref for _, ref, _ in await sup.proxy().which_children()]
            for ref in first:
                ref.tell("error")
            with anyio.fail_after(30):
                while True:
                    now = [ref for _, ref, _ in await sup.proxy().which_children()]
                    if all(ref not in (None, "restarting") and ref not in first for ref in now):
                        break
                    await anyio.sleep(0.001)
            assert (await sup.proxy().count_children())["active"] == 200
            assert len(system.actors()) == 201

    anyio.run(main, backend=backend)


@BACKENDS
def test_a_supervisor_killed_while_it_restarts_leaves_nobody_behind(backend: str) -> None:
    async def main() -> None:
        async with ActorSystem() as system:
            for strategy in ("one_for_one", "one_for_all", "rest_for_one"):
                sup = Supervisor.start(
                    children=[ChildSpec(number, Worker) for number in range(20)],
                    strategy=strategy,  # pyright: ignore
                    intensity=RestartIntensity(1_000, 60),
                )
                await sup.started()
                for _, ref, _ in (await sup.proxy().which_children())[::2]:
                    ref.tell("error")
                for _ in range(random.randint(0, 20)):
                    await anyio.lowlevel.checkpoint()
                sup.kill()
                with anyio.fail_after(10):
                    await sup.wait()
                    while system.actors():
                        await anyio.lowlevel.checkpoint()

    anyio.run(main, backend=backend)


steps = st.lists(
    st.tuples(
        st.sampled_from(
            ["ask", "hang", "error", "tell error", "stop", "shutdown", "kill", "restart", "turn", "monitor"]
        ),
        st.integers(0, 3),
    ),
    max_size=25,
)


@BACKENDS
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(steps=steps, strategy=st.sampled_from(["one_for_one", "one_for_all", "rest_for_one"]))
def test_random_interleavings(backend: str, steps: list[tuple[str, int]], strategy: Any) -> None:
    """Every ask ends, every Down comes once, no child outlives its supervisor, no task and no thread is left."""
    threads = threading.active_count()
    downs: list[Any] = []
    monitored: list[Any] = []

    async def main() -> None:
        asks: list[Any] = []
        async with ActorSystem() as system:
            sup = Supervisor.start(
                children=[ChildSpec(number, Worker, shutdown=0.05) for number in range(4)],
                strategy=strategy,
                intensity=RestartIntensity(8, 60),
            )
            await sup.started()
            refs = [ref for _, ref, _ in await sup.proxy().which_children()]
            async with anyio.create_task_group() as tasks:
                for step, number in steps:
                    if step in ("restart", "turn") and sup.is_alive():
                        await anyio.lowlevel.checkpoint()
                        supervisor = sup.actor()
                        live = supervisor.children() if supervisor is not None else []
                        refs = [row.ref or refs[index] for index, row in enumerate(live[:4])] or refs
                    ref = refs[number % len(refs)]
                    if step in ("ask", "hang", "error"):
                        asks.append(ref.ask(step, block=False))
                    elif step == "tell error" and ref.is_alive():
                        ref.tell("error")
                    elif step == "stop":
                        ref.stop(block=False)
                    elif step == "shutdown":
                        tasks.start_soon(ref.shutdown, 0.05)
                    elif step == "kill":
                        ref.kill()
                    elif step == "monitor":
                        monitored.append(ref)
                        ref.monitor(callback=downs.append)
            with anyio.fail_after(20):
                await sup.shutdown(timeout=5)
            assert system.actors() == []
        with anyio.fail_after(20):
            for answer in asks:
                try:
                    await answer
                except (ValueError, pykka.ActorDeadError):
                    continue
        assert system.zombies() == []

    anyio.run(main, backend=backend)
    assert sorted(map(id, monitored)) == sorted(id(down.ref) for down in downs)
    assert threading.active_count() <= threads
