"""What a TaskActor does: Pykka's own behaviour on tasks, and what only a task can do."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pykka
import pytest

from conduit_supervision import ActorSystem, Exit, Ignore, Shutdown, TaskActor

pytestmark = pytest.mark.anyio
tenant: contextvars.ContextVar[str] = contextvars.ContextVar("tenant", default="nobody")


class Echo(TaskActor):
    colour = "red"

    async def on_receive(self, message: Any) -> Any:
        if message == "boom":
            raise ValueError("boom")
        if message == "hang":
            await anyio.sleep_forever()
        if message == "tenant":
            await anyio.lowlevel.checkpoint()
            return tenant.get()
        return message

    async def add(self, left: int, right: int) -> int:
        await anyio.lowlevel.checkpoint()
        return left + right

    def twice(self, value: int) -> int:
        return 2 * value


async def test_ask_is_answered_and_a_proxy_calls_plain_and_async_methods() -> None:
    async with ActorSystem():
        ref = Echo.start()
        assert await ref.ask("hello", block=False) == "hello"
        proxy = ref.proxy()
        assert await proxy.add(1, 2) == 3
        assert await proxy.twice(4) == 8
        assert await proxy.colour == "red"


async def test_a_blocking_ask_on_the_actors_own_loop_raises_at_once() -> None:
    async with ActorSystem():
        ref = Echo.start()
        with pytest.raises(RuntimeError, match="would block the event loop"):
            ref.ask("hello")
        future = ref.ask("hello", block=False)
        assert await future == "hello"
        assert future.get() == "hello"  # it is there already: nothing blocks


async def test_futures_can_be_mapped_joined_filtered_and_reduced_and_awaited() -> None:
    async with ActorSystem():
        ref = Echo.start()
        assert await ref.ask(3, block=False).map(lambda value: value + 1) == 4
        assert await ref.ask(1, block=False).join(ref.ask(2, block=False)) == [1, 2]
        assert await ref.ask([1, 2, 3], block=False).filter(lambda value: value > 1) == [2, 3]
        assert await ref.ask([1, 2, 3], block=False).reduce(lambda a, b: a + b) == 6


async def test_an_exception_answers_the_asker_and_the_actor_lives_on() -> None:
    async with ActorSystem():
        ref = Echo.start()
        with pytest.raises(ValueError, match="boom"):
            await ref.ask("boom", block=False)
        assert await ref.ask("still here", block=False) == "still here"


async def test_an_exception_without_an_asker_ends_the_actor_with_that_reason() -> None:
    async with ActorSystem():
        ref = Echo.start()
        monitor = ref.monitor()
        ref.tell("boom")
        with anyio.fail_after(5):
            down = await monitor.down()
        assert down.reason.kind == "error"
        assert isinstance(down.reason.exception, ValueError)


async def test_stop_handles_what_is_in_the_inbox_first() -> None:
    handled: list[Any] = []

    class Collector(TaskActor):
        async def on_receive(self, message: Any) -> None:
            await anyio.lowlevel.checkpoint()
            handled.append(message)

        def on_stop(self) -> None:
            handled.append("stopped")

    async with ActorSystem():
        ref = Collector.start()
        for number in range(10):
            ref.tell(number)
        assert await ref.stop(block=False) is True
        assert handled == [*range(10), "stopped"]
        assert (await ref.wait()).kind == "normal"
        assert await ref.stop(block=False) is False
        with pytest.raises(pykka.ActorDeadError):
            ref.tell("late")
        with pytest.raises(pykka.ActorDeadError):
            await ref.ask("late", block=False)


async def test_shutdown_finishes_the_message_in_hand_and_leaves_the_inbox() -> None:
    began = anyio.Event()
    go_on = anyio.Event()
    handled: list[str] = []

    class Slow(TaskActor):
        async def on_receive(self, message: str) -> str:
            began.set()
            await go_on.wait()
            handled.append(message)
            return message

        async def on_stop(self) -> None:
            handled.append("on_stop")

    async with ActorSystem():
        ref = Slow.start()
        first = ref.ask("first", block=False)
        second = ref.ask("second", block=False)
        await began.wait()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ref.shutdown, 5.0)
            await anyio.lowlevel.checkpoint()
            go_on.set()
        assert await first == "first"
        with pytest.raises(pykka.ActorDeadError):
            await second
        assert handled == ["first", "on_stop"]
        assert (await ref.wait()).kind == "shutdown"


async def test_shutdown_kills_after_its_timeout() -> None:
    began = anyio.Event()

    class Hangs(TaskActor):
        async def on_receive(self, message: Any) -> None:
            began.set()
            await anyio.sleep_forever()

    async with ActorSystem():
        ref = Hangs.start()
        answer = ref.ask("hang", block=False)
        await began.wait()
        with anyio.fail_after(5):
            reason = await ref.shutdown(timeout=0.05)
        assert reason.kind == "killed"
        with pytest.raises(pykka.ActorDeadError):
            await answer


async def test_kill_interrupts_at_once_unwinds_the_lifespan_and_skips_on_stop() -> None:
    seen: list[str] = []

    class Holder(Echo):
        @asynccontextmanager
        async def lifespan(self) -> AsyncGenerator[None, None]:
            seen.append("entered")
            try:
                yield
            finally:
                seen.append("left")

        def on_stop(self) -> None:
            seen.append("on_stop")

    async with ActorSystem():
        ref = Holder.start()
        answer = ref.ask("hang", block=False)
        await ref.started()
        ref.kill()
        with pytest.raises(pykka.ActorDeadError):
            await answer
        with anyio.fail_after(5):
            assert (await ref.wait()).kind == "killed"
        assert seen == ["entered", "left"]


async def test_code_that_swallows_cancellation_keeps_nobody_waiting_and_is_seen_as_a_zombie() -> None:
    let_go = anyio.Event()

    class Stubborn(TaskActor):
        zombie_after = 0.05

        async def on_receive(self, message: Any) -> None:
            with anyio.CancelScope(shield=True):
                await let_go.wait()

    async with ActorSystem() as system:
        ref = Stubborn.start()
        answer = ref.ask("work", block=False)
        await ref.started()
        ref.kill()
        with anyio.fail_after(5):
            with pytest.raises(pykka.ActorDeadError):
                await answer
            assert (await ref.wait()).kind == "killed"
        assert system.zombies() == [ref]
        let_go.set()
        with anyio.fail_after(5):
            while system.zombies():
                await anyio.lowlevel.checkpoint()


async def test_an_exception_in_the_lifespan_or_in_on_stop_is_the_exit_reason() -> None:
    class FailsLeaving(TaskActor):
        @asynccontextmanager
        async def lifespan(self) -> AsyncGenerator[None, None]:
            yield
            raise OSError("left badly")

    class FailsStopping(TaskActor):
        async def on_stop(self) -> None:
            raise OSError("stopped badly")

    class FailsInside(TaskActor):
        @asynccontextmanager
        async def lifespan(self) -> AsyncGenerator[None, None]:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._die)
                yield

        async def _die(self) -> None:
            raise OSError("background")

    async with ActorSystem():
        for actor_class, text in ((FailsLeaving, "left badly"), (FailsStopping, "stopped badly")):
            ref = actor_class.start()
            ref.stop(block=False)
            reason = await ref.wait()
            assert reason.kind == "error"
            assert str(reason.exception) == text
        with anyio.fail_after(5):
            reason = await FailsInside.start().wait()
        assert reason.kind == "error"
        assert str(reason.exception) == "background"


async def test_a_failed_and_a_refused_start_are_told_apart() -> None:
    class Fails(TaskActor):
        def on_start(self) -> None:
            raise LookupError("no database")

    class Refuses(TaskActor):
        def on_start(self) -> None:
            raise Ignore

    async with ActorSystem():
        with pytest.raises(LookupError):
            await Fails.start().started()
        with pytest.raises(Ignore):
            await Refuses.start().started()


async def test_an_actor_may_say_that_it_has_started_before_its_lifespan_is_entered() -> None:
    go_on = anyio.Event()

    class Connects(TaskActor):
        @asynccontextmanager
        async def lifespan(self) -> AsyncGenerator[None, None]:
            self.init_ack()
            await go_on.wait()
            yield

        def on_receive(self, message: Any) -> Any:
            return message

    async with ActorSystem():
        ref = Connects.start()
        with anyio.fail_after(5):
            await ref.started()
        answer = ref.ask("queued", block=False)
        assert not answer.done()
        go_on.set()
        assert await answer == "queued"


async def test_shutdown_raised_inside_ends_the_actor_as_wished_even_if_somebody_asked() -> None:
    class Leaves(TaskActor):
        def on_receive(self, message: Any) -> None:
            raise Shutdown

    async with ActorSystem():
        ref = Leaves.start()
        with pytest.raises(pykka.ActorDeadError):
            await ref.ask("go", block=False)
        assert (await ref.wait()).kind == "shutdown"


async def test_a_monitor_tells_once_also_of_an_actor_that_is_dead_already() -> None:
    async with ActorSystem():
        ref = Echo.start()
        told: list[Any] = []
        ref.monitor(callback=told.append)
        silent = ref.monitor(callback=told.append)
        silent.cancel()
        ref.kill()
        await ref.wait()
        late = await ref.monitor().down()
        assert [down.reason.kind for down in told] == ["killed"]
        assert late.reason.kind == "killed"
        assert [down.reason.kind async for down in ref.monitor()] == ["killed"]


async def test_a_monitoring_actor_gets_down_as_a_message() -> None:
    heard: list[Any] = []
    told = anyio.Event()

    class Watcher(TaskActor):
        def on_receive(self, message: Any) -> None:
            heard.append(message)
            told.set()

    async with ActorSystem():
        watcher = Watcher.start()
        ref = Echo.start()
        ref.monitor(notify=watcher)
        ref.kill()
        with anyio.fail_after(5):
            await told.wait()
        assert heard[0].ref is ref


async def test_linked_actors_die_together_unless_one_traps_exits() -> None:
    heard: list[Any] = []
    told = anyio.Event()

    class Partner(TaskActor):
        def on_receive(self, message: Any) -> None:
            if isinstance(message, Exit):
                heard.append(message)
                told.set()
            else:
                self.link(message)

    class Trapper(Partner):
        trap_exits = True

    async with ActorSystem():
        victim, partner, trapper = Echo.start(), Partner.start(), Trapper.start()
        await partner.ask(victim, block=False)
        await trapper.ask(victim, block=False)
        victim.tell("boom")
        with anyio.fail_after(5):
            assert (await partner.wait()).kind == "error"
            await told.wait()
        assert trapper.is_alive()
        assert heard[0].reason.kind == "error"


async def test_the_handler_runs_in_the_context_of_the_sender() -> None:
    async with ActorSystem():
        ref = Echo.start()
        tenant.set("acme")
        assert await ref.ask("tenant", block=False) == "acme"
        answers = dict.fromkeys(("one", "two"), "")

        async def ask_as(name: str) -> None:
            tenant.set(name)
            answers[name] = await ref.ask("tenant", block=False)

        async with anyio.create_task_group() as tasks:
            for name in answers:
                tasks.start_soon(ask_as, name)
        assert answers == {"one": "one", "two": "two"}


async def test_names_are_taken_found_and_freed() -> None:
    async with ActorSystem() as system:
        ref = system.start(Echo, name="echo")
        assert system.whereis("echo") is ref
        with pytest.raises(ValueError, match="taken"):
            system.start(Echo, name="echo")
        ref.kill()
        await ref.wait()
        assert system.whereis("echo") is None
        again = system.start(Echo, name="echo")
        assert system.whereis("echo") is again


async def test_pykkas_registry_knows_the_actors_and_forgets_the_dead() -> None:
    async with ActorSystem():
        ref = Echo.start()
        assert pykka.ActorRegistry.get_by_urn(ref.actor_urn) is ref
        assert ref in pykka.ActorRegistry.get_by_class(Echo)
        assert ref in pykka.ActorRegistry.get_by_class_name("Echo")
        pykka.ActorRegistry.broadcast("hello", target_class=Echo)
        await ref.stop(block=False)
        assert ref not in pykka.ActorRegistry.get_all()


async def test_a_system_opened_in_one_task_can_be_closed_in_another() -> None:
    system = ActorSystem()
    refs: list[Any] = []

    async def open_it() -> None:
        await system.__aenter__()
        refs.append(system.start(Echo))

    async def close_it() -> None:
        await system.__aexit__(None, None, None)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(open_it)
    assert await refs[0].ask("hello", block=False) == "hello"
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(close_it)
    assert not refs[0].is_alive()
    with pytest.raises(RuntimeError):
        system.start(Echo)


async def test_leaving_the_system_stops_all_actors_in_reverse_order() -> None:
    stopped: list[int] = []

    class Numbered(TaskActor):
        def __init__(self, number: int) -> None:
            super().__init__()
            self.number = number

        def on_stop(self) -> None:
            stopped.append(self.number)

    async with ActorSystem() as system:
        for number in range(5):
            await system.start(Numbered, number).started()
    assert stopped == [4, 3, 2, 1, 0]


def test_messages_from_sixteen_threads_arrive_in_order_per_sender() -> None:
    received: list[tuple[int, int]] = []

    class Collector(TaskActor):
        def on_receive(self, message: tuple[int, int]) -> int:
            received.append(message)
            return len(received)

    with ActorSystem.in_thread() as system:
        ref = system.start(Collector)

        def send(sender: int) -> None:
            for number in range(100):
                ref.tell((sender, number))

        threads = [threading.Thread(target=send, args=(sender,)) for sender in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert ref.ask((-1, 0), timeout=20) == 1_601
    for sender in range(16):
        assert [number for who, number in received if who == sender] == list(range(100))


def test_a_system_in_its_own_thread_serves_plain_programs(anyio_backend: str) -> None:
    with ActorSystem.in_thread(backend=anyio_backend) as system:
        ref = system.start(Echo)
        assert ref.ask("hello", timeout=5) == "hello"
        assert ref.proxy().add(1, 2).get(timeout=5) == 3
        proxy = ref.proxy()
        proxy.colour = "blue"
        assert proxy.colour.get(timeout=5) == "blue"
        with pytest.raises(ValueError, match="boom"):
            ref.ask("boom", timeout=5)
        with pytest.raises(pykka.Timeout):
            ref.ask("hang", timeout=0.01)
        ref.kill()
        assert ref.wait().get(timeout=5).kind == "killed"
    assert not any(thread.name == "conduit actors" for thread in threading.enumerate())


async def test_the_tree_shows_who_runs_and_what_they_do() -> None:
    async with ActorSystem() as system:
        ref = system.start(Echo, name="echo")
        ref.ask("hang", block=False)
        await ref.started()
        await anyio.lowlevel.checkpoint()
        node = next(node for node in system.tree().walk() if node.id == "echo")
        assert (node.kind, node.state, node.current) == ("Echo", "running", "str")
        assert "echo  Echo, running" in str(system.tree())
