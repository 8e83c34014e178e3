"""Corners: slow and hanging starts, shutdown times, threads, sliding windows, Pykka's traversable attributes."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

import anyio
import pykka
import pytest

from conduit_supervision import (
    ActorSystem,
    Backoff,
    ChildSpec,
    RestartIntensity,
    Supervisor,
    TaskActor,
    events,
)

pytestmark = pytest.mark.anyio


class Player:
    pykka_traversable = True

    def __init__(self) -> None:
        self.volume = 5

    def play(self, song: str) -> str:
        return f"plays {song}"


class Jukebox(TaskActor):
    def __init__(self) -> None:
        super().__init__()
        self.player = pykka.traversable(Player())
        self.heard: list[Any] = []

    def on_receive(self, message: Any) -> Any:
        self.heard.append(message)
        return self.heard


async def test_traversable_attributes_are_reached_through_a_proxy() -> None:
    async with ActorSystem():
        proxy = Jukebox.start().proxy()
        assert await proxy.player.play("a song") == "plays a song"
        assert await proxy.player.volume == 5


async def test_a_method_can_be_told_and_setting_an_attribute_on_the_loop_is_refused() -> None:
    async with ActorSystem():
        ref = Jukebox.start()
        proxy = ref.proxy()
        proxy.on_receive.defer("told")
        assert await ref.ask("asked", block=False) == ["told", "asked"]
        with pytest.raises(RuntimeError, match="would block"):
            proxy.heard = []


async def test_stop_all_ends_every_actor() -> None:
    async with ActorSystem() as system:
        for _ in range(3):
            Jukebox.start()
        futures = pykka.ActorRegistry.stop_all(block=False)
        assert [await future for future in futures] == [True] * 3
        assert system.actors() == []


async def test_on_failure_runs_instead_of_on_stop_and_pykka_style_stop_from_inside_works() -> None:
    seen: list[Any] = []

    class Noisy(TaskActor):
        def on_receive(self, message: str) -> None:
            if message == "stop":
                self.stop()
            else:
                raise ValueError(message)

        def on_stop(self) -> None:
            seen.append("on_stop")

        async def on_failure(self, exception_type: Any, exception_value: Any, traceback: Any) -> None:
            seen.append(exception_type)

    async with ActorSystem():
        ref = Noisy.start()
        ref.tell("bad")
        await ref.wait()
        ref = Noisy.start()
        ref.tell("stop")
        assert (await ref.wait()).kind == "normal"
    assert seen == [ValueError, "on_stop"]


async def test_a_cancelled_asker_stops_waiting_and_the_actor_goes_on() -> None:
    go_on = anyio.Event()

    class Slow(TaskActor):
        async def on_receive(self, message: str) -> str:
            if message == "wait":
                await go_on.wait()
            return message

    async with ActorSystem():
        ref = Slow.start()
        with anyio.move_on_after(0.05) as scope:
            await ref.ask("wait", block=False)
        assert scope.cancelled_caught
        go_on.set()
        assert await ref.ask("next", block=False) == "next"


async def test_a_supervisor_whose_child_hangs_in_its_start_can_be_ended() -> None:
    class Hangs(TaskActor):
        async def on_start(self) -> None:
            await anyio.sleep_forever()

    async with ActorSystem() as system:
        sup = Supervisor.start(children=[ChildSpec("h", Hangs)])
        await anyio.lowlevel.checkpoint()
        with anyio.fail_after(10):
            assert (await sup.shutdown(timeout=0.1)).kind == "shutdown"
        with anyio.fail_after(10):
            while system.actors():
                await anyio.lowlevel.checkpoint()


@pytest.mark.parametrize(("shutdown", "kind"), [("brutal_kill", "killed"), (0.05, "killed"), ("infinity", "shutdown")])
async def test_the_shutdown_time_of_a_child_spec(shutdown: Any, kind: str) -> None:
    class Slow(TaskActor):
        async def on_stop(self) -> None:
            if shutdown == "infinity":
                await anyio.sleep(0.2)
            else:
                await anyio.sleep_forever()

    async with ActorSystem():
        sup = Supervisor.start(children=[ChildSpec("s", Slow, shutdown=shutdown)])
        await sup.started()
        (_, ref, _) = (await sup.proxy().which_children())[0]
        with anyio.fail_after(10):
            await sup.shutdown(timeout=None)
            assert (await ref.wait()).kind == kind


async def test_the_window_of_restarts_slides() -> None:
    class Crasher(TaskActor):
        def on_receive(self, message: Any) -> None:
            raise ValueError

    async with ActorSystem() as system:
        started: list[Any] = []
        news = [anyio.Event()]

        def listen(event: events.Event) -> None:
            if isinstance(event, events.ChildStarted):
                started.append(event.ref)
                news[0].set()
                news[0] = anyio.Event()

        system.subscribe(listen)
        sup = Supervisor.start(children=[ChildSpec("c", Crasher)], intensity=RestartIntensity(1, 0.2))
        await sup.started()
        for crashes in range(3):
            started[-1].tell("crash")
            with anyio.fail_after(5):
                while len(started) < crashes + 2:
                    await news[0].wait()
            await anyio.sleep(0.25)  # longer than the window: the next crash is the first in it again
        assert sup.is_alive()


async def test_back_off_starts_from_the_first_delay_after_a_stable_period() -> None:
    class Crasher(TaskActor):
        def on_receive(self, message: Any) -> None:
            raise ValueError

    async with ActorSystem() as system:
        attempts: list[int] = []
        refs: list[Any] = []
        news = [anyio.Event()]

        def listen(event: events.Event) -> None:
            if isinstance(event, events.RestartScheduled):
                attempts.append(event.attempt)
            if isinstance(event, events.ChildStarted):
                refs.append(event.ref)
                news[0].set()
                news[0] = anyio.Event()

        system.subscribe(listen)
        backoff = Backoff(initial=0.01, maximum=0.02, jitter="none", reset_after=0.3)
        sup = Supervisor.start(children=[ChildSpec("c", Crasher)], backoff=backoff, intensity=RestartIntensity(100, 60))
        await sup.started()
        for crash in range(4):
            if crash == 3:
                await anyio.sleep(0.4)  # stable for longer than reset_after
            refs[-1].tell("crash")
            with anyio.fail_after(5):
                while len(refs) < crash + 2:
                    await news[0].wait()
        assert attempts == [1, 2, 3, 1]


async def test_a_thread_that_will_not_stop_is_reported_and_abandoned(caplog: pytest.LogCaptureFixture) -> None:
    let_go = threading.Event()

    class Stubborn(pykka.ThreadingActor):
        use_daemon_thread = True

        def on_receive(self, message: Any) -> None:
            let_go.wait(20)

    async with ActorSystem() as system:
        zombies: list[Any] = []
        system.subscribe(lambda event: zombies.append(event) if isinstance(event, events.ZombieFound) else None)
        sup = Supervisor.start(children=[ChildSpec("t", Stubborn, shutdown=0.1)])
        await sup.started()
        (_, ref, _) = (await sup.proxy().which_children())[0]
        ref.tell("hang")
        with anyio.fail_after(10):
            await sup.shutdown(timeout=None)
        assert [event.ref for event in zombies] == [ref]
        assert "abandoned" in caplog.text
        let_go.set()


async def test_a_blocked_loop_is_found_and_its_stack_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    class Blocks(TaskActor):
        def on_receive(self, message: Any) -> str:
            time.sleep(0.5)
            return "done"

    caplog.set_level(logging.ERROR)
    async with ActorSystem(blocked_after=0.1):
        assert await Blocks.start().ask("go", block=False) == "done"
        with anyio.fail_after(10):
            while "was blocked for" not in caplog.text:
                await anyio.sleep(0.01)
    assert "time.sleep(0.5)" in caplog.text


async def test_a_raising_listener_hurts_nobody() -> None:
    async with ActorSystem() as system:

        def broken(event: events.Event) -> None:
            raise RuntimeError

        unsubscribe = system.subscribe(broken)
        sup = Supervisor.start(children=[ChildSpec("j", Jukebox)])
        await sup.started()
        unsubscribe()
        assert sup.is_alive()
