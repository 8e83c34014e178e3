"""OTP's supervisors: who is restarted, in which order, and when it is enough."""

from __future__ import annotations

from typing import Any

import anyio
import pykka
import pytest
from pykka.messages import ProxyCall

from conduit_supervision import (
    ActorSystem,
    Backoff,
    ChildError,
    ChildSpec,
    DynamicSupervisor,
    Ignore,
    RestartIntensity,
    Shutdown,
    Supervisor,
    TaskActor,
    events,
)

pytestmark = pytest.mark.anyio


class Worker(TaskActor):
    """Writes what happens to it into a log."""

    def __init__(self, name: str = "", log: list[str] | None = None) -> None:
        super().__init__()
        self.name = name
        self.log = log if log is not None else []

    def on_start(self) -> None:
        self.log.append(f"+{self.name}")

    def on_stop(self) -> None:
        self.log.append(f"-{self.name}")

    async def on_receive(self, message: Any) -> Any:
        if message == "error":
            raise ValueError("crashed")
        if message == "shutdown":
            raise Shutdown
        return self.name


class Watch:
    """Waits for events of a system, by type."""

    def __init__(self, system: ActorSystem) -> None:
        self.seen: list[events.Event] = []
        self._news = anyio.Event()
        system.subscribe(self._on_event)

    def _on_event(self, event: events.Event) -> None:
        self.seen.append(event)
        self._news.set()

    async def until(self, kind: type[events.Event], count: int = 1) -> None:
        with anyio.fail_after(10):
            while sum(isinstance(event, kind) for event in self.seen) < count:
                self._news = anyio.Event()
                await self._news.wait()


def specs(log: list[str], *names: str, **options: Any) -> list[ChildSpec]:
    return [ChildSpec(name, Worker, args=(name, log), **options) for name in names]


async def child(sup: Any, child_id: object) -> Any:
    return next(ref for name, ref, _ in await sup.proxy().which_children() if name == child_id)


async def end(ref: Any, how: str) -> None:
    if how == "normal":
        ref.stop(block=False)
    elif how == "killed":
        ref.kill()
    else:
        ref.tell(how)
    with anyio.fail_after(5):
        await ref.wait()


@pytest.mark.parametrize(
    ("restart", "how", "again"),
    [
        ("permanent", "normal", True),
        ("permanent", "shutdown", True),
        ("permanent", "killed", True),
        ("permanent", "error", True),
        ("transient", "normal", False),
        ("transient", "shutdown", False),
        ("transient", "killed", True),
        ("transient", "error", True),
        ("temporary", "normal", False),
        ("temporary", "shutdown", False),
        ("temporary", "killed", False),
        ("temporary", "error", False),
    ],
)
async def test_the_restart_type_decides_for_each_exit_reason(restart: Any, how: str, again: bool) -> None:
    async with ActorSystem() as system:
        watch = Watch(system)
        sup = Supervisor.start(children=specs([], "a", restart=restart))
        await sup.started()
        first = await child(sup, "a")
        await end(first, how)
        await watch.until(events.ChildExited)
        if again:
            await watch.until(events.ChildStarted, 2)
            assert await child(sup, "a") is not first
        else:
            counts = await sup.proxy().count_children()
            assert counts["active"] == 0
            assert counts["specs"] == (0 if restart == "temporary" else 1)


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ("one_for_one", ["+b"]),
        ("one_for_all", ["-c", "-a", "+a", "+b", "+c"]),
        ("rest_for_one", ["-c", "+b", "+c"]),
    ],
)
async def test_the_strategy_decides_who_goes_down_and_comes_back_in_which_order(
    strategy: Any, expected: list[str]
) -> None:
    log: list[str] = []
    async with ActorSystem() as system:
        watch = Watch(system)
        sup = Supervisor.start(children=specs(log, "a", "b", "c"), strategy=strategy)
        await sup.started()
        assert log == ["+a", "+b", "+c"]
        log.clear()
        (await child(sup, "b")).tell("error")
        await watch.until(events.ChildStarted, 3 + sum(line.startswith("+") for line in expected))
        assert log == expected
    assert log[len(expected) :] == ["-c", "-b", "-a"]


async def test_a_temporary_sibling_is_not_brought_back_by_one_for_all() -> None:
    log: list[str] = []
    async with ActorSystem() as system:
        watch = Watch(system)
        children = [*specs(log, "a"), *specs(log, "t", restart="temporary"), *specs(log, "b", restart="transient")]
        sup = Supervisor.start(children=children, strategy="one_for_all")
        await sup.started()
        (await child(sup, "a")).tell("error")
        await watch.until(events.ChildStarted, 5)
        assert [name for name, _, _ in await sup.proxy().which_children()] == ["a", "b"]


@pytest.mark.parametrize(("crashes", "survives"), [(2, True), (3, True), (4, False)])
async def test_the_intensity_is_exceeded_by_one_restart_too_many(crashes: int, survives: bool) -> None:
    log: list[str] = []
    async with ActorSystem() as system:
        watch = Watch(system)
        sup = Supervisor.start(
            children=specs(log, "a", "b"), intensity=RestartIntensity(max_restarts=3, max_seconds=60)
        )
        await sup.started()
        for number in range(crashes):
            ref = await child(sup, "a")
            ref.tell("error")
            await watch.until(events.ChildExited, number + 1)
            if number < 3:
                await watch.until(events.ChildStarted, number + 3)
        if survives:
            assert sup.is_alive()
            return
        with anyio.fail_after(5):
            reason = await sup.wait()
        assert reason.kind == "shutdown"
        assert isinstance(reason.exception, ValueError)
        assert log[-1] == "-b"


async def test_escalation_the_next_level_restarts_the_supervisor_that_gave_up() -> None:
    async with ActorSystem() as system:
        watch = Watch(system)
        inner = ChildSpec(
            "inner",
            Supervisor,
            kwargs={"children": specs([], "a"), "intensity": RestartIntensity(0, 5)},
            type="supervisor",
            shutdown="infinity",
        )
        outer = Supervisor.start(children=[inner])
        await outer.started()
        first = await child(outer, "inner")
        (await child(first, "a")).tell("error")
        await watch.until(events.GaveUp)
        await watch.until(events.ChildStarted, 4)
        second = await child(outer, "inner")
        assert second is not first
        assert (await child(second, "a")).is_alive()


async def test_a_restart_that_fails_counts_and_is_tried_again_within_the_intensity() -> None:
    attempts: list[int] = []

    class Flaky(TaskActor):
        def on_start(self) -> None:
            attempts.append(1)
            if len(attempts) > 1:
                raise OSError("not yet")

        def on_receive(self, message: Any) -> None:
            raise ValueError

    async with ActorSystem():
        sup = Supervisor.start(children=[ChildSpec("f", Flaky)], intensity=RestartIntensity(3, 60))
        await sup.started()
        (await child(sup, "f")).tell("crash")
        with anyio.fail_after(5):
            assert (await sup.wait()).kind == "shutdown"
        assert len(attempts) == 1 + 3


async def test_a_child_that_fails_to_start_stops_its_siblings_and_fails_the_supervisor() -> None:
    log: list[str] = []

    class Fails(TaskActor):
        def on_start(self) -> None:
            raise OSError("no")

    async with ActorSystem() as system:
        sup = Supervisor.start(children=[*specs(log, "a"), ChildSpec("bad", Fails)])
        with pytest.raises(OSError, match="no"):
            await sup.started()
        await sup.wait()
        assert log == ["+a", "-a"]
        assert system.actors() == []


async def test_a_child_that_refuses_to_start_is_kept_as_a_spec() -> None:
    class Refuses(TaskActor):
        def on_start(self) -> None:
            raise Ignore

    async with ActorSystem():
        sup = Supervisor.start(children=[ChildSpec("r", Refuses)])
        await sup.started()
        assert await sup.proxy().which_children() == [("r", None, "worker")]


async def test_management_answers_misuse_as_otp_does() -> None:
    async with ActorSystem():
        sup = Supervisor.start(children=specs([], "a"))
        await sup.started()
        proxy = sup.proxy()

        async def refused(name: str, *args: Any) -> str:
            with pytest.raises(ChildError) as caught:
                await sup.ask(ProxyCall((name,), args, {}), block=False)
            return caught.value.code

        assert await refused("start_child", ChildSpec("a", Worker)) == "already_started"
        assert await refused("restart_child", "a") == "running"
        assert await refused("delete_child", "a") == "running"
        assert await refused("terminate_child", "x") == "not_found"
        assert await refused("get_child_spec", "x") == "not_found"
        await proxy.terminate_child("a")
        await proxy.terminate_child("a")
        assert await refused("start_child", ChildSpec("a", Worker)) == "already_present"
        assert (await proxy.restart_child("a")).is_alive()
        await proxy.terminate_child("a")
        await proxy.delete_child("a")
        assert await refused("delete_child", "a") == "not_found"
        added = await proxy.start_child(ChildSpec("b", Worker, args=("b",)))
        assert await added.ask("name", block=False) == "b"
        assert (await proxy.get_child_spec("b")).id == "b"
        assert await proxy.count_children() == {"specs": 1, "active": 1, "supervisors": 0, "workers": 1}


async def test_back_off_makes_a_child_wait_and_the_supervisor_stays_responsive() -> None:
    async with ActorSystem() as system:
        watch = Watch(system)
        backoff = Backoff(initial=60, maximum=60, jitter="none")
        sup = Supervisor.start(children=specs([], "a"), backoff=backoff)
        await sup.started()
        (await child(sup, "a")).tell("error")
        await watch.until(events.RestartScheduled)
        assert (await child(sup, "a")) == "restarting"
        with pytest.raises(ChildError) as caught:
            await sup.proxy().restart_child("a")
        assert caught.value.code == "restarting"
        with anyio.fail_after(5):  # in the middle of the back-off
            assert (await sup.shutdown()).kind == "shutdown"


def test_back_off_grows_is_capped_and_jitters_between_zero_and_the_delay() -> None:
    plain = Backoff(initial=0.1, maximum=1.0, factor=2.0, jitter="none")
    assert [plain.delay(attempt) for attempt in (1, 2, 3, 4, 5, 5_000)] == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    full = Backoff(initial=1.0, maximum=8.0)
    delays = [full.delay(4) for _ in range(200)]
    assert all(0 <= delay <= 8 for delay in delays)
    assert max(delays) - min(delays) > 1


@pytest.mark.parametrize(
    ("auto", "after_first", "after_both"),
    [("any_significant", False, False), ("all_significant", True, False), ("never", True, True)],
)
async def test_significant_children_end_the_supervisor(auto: Any, after_first: bool, after_both: bool) -> None:
    async with ActorSystem() as system:
        watch = Watch(system)
        children = specs([], "a", "b", restart="transient", significant=True)
        sup = Supervisor.start(children=children, auto_shutdown=auto)
        await sup.started()
        first, second = await child(sup, "a"), await child(sup, "b")
        await end(first, "normal")
        await watch.until(events.ChildExited)
        if not after_first:
            with anyio.fail_after(5):
                assert (await sup.wait()).kind == "shutdown"
            return
        await sup.proxy().count_children()
        assert sup.is_alive()
        await end(second, "normal")
        await watch.until(events.ChildExited, 2)
        if not after_both:
            with anyio.fail_after(5):
                assert (await sup.wait()).kind == "shutdown"
        else:
            await sup.proxy().count_children()
            assert sup.is_alive()


async def test_a_killed_supervisor_leaves_no_child_behind() -> None:
    async with ActorSystem() as system:
        sup = Supervisor.start(children=specs([], "a", "b"))
        await sup.started()
        children = [ref for _, ref, _ in await sup.proxy().which_children()]
        sup.kill()
        with anyio.fail_after(5):
            for ref in [sup, *children]:
                assert (await ref.wait()).kind == "killed"
        assert system.actors() == []


async def test_a_registered_child_is_found_again_after_its_restart() -> None:
    async with ActorSystem() as system:
        watch = Watch(system)
        sup = Supervisor.start(children=[ChildSpec("a", Worker, args=("a",), name="the worker")])
        await sup.started()
        first = system.whereis("the worker")
        assert first is not None
        first.tell("error")
        await watch.until(events.ChildStarted, 2)
        second = system.whereis("the worker")
        assert second is not None
        assert second is not first


async def test_a_threading_actor_is_started_restarted_and_stopped() -> None:
    class Thread(pykka.ThreadingActor):
        def on_receive(self, message: Any) -> Any:
            if message == "error":
                raise ValueError("in a thread")
            return message

    async with ActorSystem() as system:
        watch = Watch(system)
        sup = Supervisor.start(children=[ChildSpec("t", Thread)])
        await sup.started()
        first = await child(sup, "t")
        first.tell("error")
        await watch.until(events.ChildStarted, 2)
        second = await child(sup, "t")
        assert second is not first
        exits = [event for event in watch.seen if isinstance(event, events.ChildExited)]
        assert isinstance(exits[0].reason.exception, ValueError)
    assert not second.is_alive()


async def test_workers_come_and_go_by_the_thousand() -> None:
    class OneShot(TaskActor):
        registered = False
        one_shot = True

        def on_receive(self, message: int) -> int:
            return message * 2

    async with ActorSystem() as system:
        dyn = DynamicSupervisor.start(max_children=5_000)
        await dyn.started()
        supervisor = dyn.actor()
        assert supervisor is not None
        refs = [supervisor.start_worker(OneShot()) for _ in range(5_000)]
        assert (await dyn.proxy().count_children())["active"] == 5_000
        with pytest.raises(ChildError) as caught:
            supervisor.start_worker(OneShot())
        assert caught.value.code == "max_children"
        answers = [ref.ask(number, block=False) for number, ref in enumerate(refs)]
        for ref in refs[::3]:
            ref.kill()
        with anyio.fail_after(30):
            for number, answer in enumerate(answers):
                if number % 3:
                    assert await answer == number * 2
                else:
                    with pytest.raises(pykka.ActorDeadError):
                        await answer
            for ref in refs:
                await ref.wait()
        assert (await dyn.proxy().count_children())["active"] == 0
        assert system.zombies() == []


async def test_a_dynamic_supervisor_stops_its_children_in_parallel() -> None:
    everybody = anyio.Event()
    stopping: list[int] = []

    class Slow(TaskActor):
        async def on_stop(self) -> None:
            stopping.append(1)
            if len(stopping) == 5:
                everybody.set()
            await everybody.wait()  # in sequence this would never be set

    async with ActorSystem():
        dyn = DynamicSupervisor.start()
        for number in range(5):
            await dyn.proxy().start_child(ChildSpec(number, Slow, shutdown=20))
        with anyio.fail_after(10):
            await dyn.shutdown(timeout=None)
        assert len(stopping) == 5


@pytest.mark.parametrize("kind", ["plain", "with hooks"])
async def test_run_worker_is_start_and_ask_in_one(kind: str) -> None:
    seen: list[str] = []

    class Plain(TaskActor):
        registered = False
        one_shot = True

        async def on_receive(self, message: Any) -> Any:
            await anyio.lowlevel.checkpoint()
            if message == "error":
                raise ValueError("as asked")
            if message == "hang":
                await anyio.sleep_forever()
            return message

    class Hooked(Plain):
        def on_stop(self) -> None:
            seen.append("on_stop")

    worker = Plain if kind == "plain" else Hooked
    async with ActorSystem() as system:
        dyn = DynamicSupervisor.start()
        await dyn.started()
        supervisor = dyn.actor()
        assert supervisor is not None
        ref, reply = supervisor.run_worker(worker(), "hello")
        assert await reply == "hello"
        assert (await ref.wait()).kind == "normal"
        ref, reply = supervisor.run_worker(worker(), "error")
        with pytest.raises(ValueError, match="as asked"):
            await reply
        await ref.wait()
        ref, reply = supervisor.run_worker(worker(), "hang")
        await anyio.lowlevel.checkpoint()
        ref.kill()
        with pytest.raises(pykka.ActorDeadError):
            await reply
        assert (await ref.wait()).kind == "killed"
        ref, reply = supervisor.run_worker(worker(), "never begun")
        ref.kill()
        with pytest.raises(pykka.ActorDeadError):
            await reply
        ref, reply = supervisor.run_worker(worker(), "hang")
        await supervisor.actor_ref.shutdown()
        with pytest.raises(pykka.ActorDeadError):
            await reply
        assert supervisor.workers == []
        assert system.zombies() == []
    assert seen == (["on_stop"] * 2 if kind == "with hooks" else [])
