"""What does not end by itself, or ends in the wrong place: stray cancellations, and starts that hang while the tree goes down."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import anyio
import pykka
import pytest

from conduit_supervision import (
    ActorSystem,
    ChildSpec,
    DynamicSupervisor,
    RestartIntensity,
    StrayCancellation,
    Supervisor,
    TaskActor,
)

only_asyncio = pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
"""On trio nobody but trio can raise a cancellation."""


class Echo(TaskActor):
    def on_receive(self, message: Any) -> Any:
        return message


class Strayed(TaskActor):
    """Awaits a task that somebody else cancelled, where it is told to."""

    one_shot: ClassVar[bool] = False

    def __init__(self, where: str) -> None:
        super().__init__()
        self._where = where

    @asynccontextmanager
    async def lifespan(self) -> AsyncGenerator[None, None]:
        await self._stray("entry")
        yield
        await self._stray("exit")

    async def on_start(self) -> None:
        await self._stray("on_start")

    async def on_stop(self) -> None:
        await self._stray("on_stop")

    async def on_receive(self, message: Any) -> Any:
        await self._stray(message)
        return "done"

    async def _stray(self, where: str) -> None:
        if where != self._where:
            return
        task = asyncio.ensure_future(asyncio.sleep(60))
        task.cancel()
        await task


class StrayedWorker(TaskActor):
    registered = False
    one_shot = True

    async def on_receive(self, message: Any) -> Any:
        task = asyncio.ensure_future(asyncio.sleep(60))
        task.cancel()
        await task


@pytest.mark.anyio
@only_asyncio
@pytest.mark.parametrize("where", ["entry", "exit", "on_start", "on_stop"])
async def test_a_stray_cancellation_in_a_hook_fails_only_that_actor(where: str) -> None:
    with anyio.fail_after(10):
        async with ActorSystem() as system:
            bystander = system.start(Echo)
            ref = system.start(Strayed, where)
            ref.stop(block=False)
            reason = await ref.wait()
            assert reason.kind == "error"
            assert isinstance(reason.exception, StrayCancellation)
            assert await bystander.ask("alive", block=False) == "alive"


@pytest.mark.anyio
@only_asyncio
async def test_a_stray_cancellation_in_a_handler_is_the_askers_and_the_actor_lives() -> None:
    with anyio.fail_after(10):
        async with ActorSystem() as system:
            ref = system.start(Strayed, "message")
            with pytest.raises(StrayCancellation):
                await ref.ask("message", block=False)
            assert await ref.ask("other", block=False) == "done"
            ref.tell("message")
            reason = await ref.wait()
            assert isinstance(reason.exception, StrayCancellation)


@pytest.mark.anyio
@only_asyncio
async def test_a_stray_cancellation_in_a_worker_is_its_askers() -> None:
    with anyio.fail_after(10):
        async with ActorSystem() as system:
            bystander = system.start(Echo)
            pool = system.start(DynamicSupervisor)
            await pool.started()
            supervisor = pool.actor()
            assert supervisor is not None
            _, reply = supervisor.run_worker(StrayedWorker(), 1)
            with pytest.raises(StrayCancellation):
                await reply
            assert await bystander.ask("alive", block=False) == "alive"


@pytest.mark.anyio
@only_asyncio
async def test_a_child_with_a_stray_cancellation_is_restarted() -> None:
    with anyio.fail_after(10):
        async with ActorSystem() as system:
            sup = system.start(Supervisor, [ChildSpec("a", Strayed, ("message",), name="a")])
            await sup.started()
            first = system.whereis("a")
            assert first is not None
            first.tell("message")
            await first.wait()
            while (second := system.whereis("a")) is None or second is first:
                await anyio.lowlevel.checkpoint()
            assert await second.ask("other", block=False) == "done"


@pytest.mark.anyio
@only_asyncio
async def test_a_task_cancelled_by_a_stranger_is_a_killed_actor_and_no_more() -> None:
    with anyio.fail_after(10):
        async with ActorSystem() as system:
            bystander = system.start(Echo)
            before = asyncio.all_tasks()
            ref = system.start(Echo)
            await ref.started()
            [task] = asyncio.all_tasks() - before
            task.cancel()
            assert (await ref.wait()).kind == "killed"
            assert await bystander.ask("alive", block=False) == "alive"


class HangsLater(TaskActor):
    """Starts once, and hangs in every later start."""

    def __init__(self, starts: list[anyio.Event]) -> None:
        super().__init__()
        self._starts = starts

    async def on_start(self) -> None:
        if self._starts[0].is_set():
            self._starts[1].set()
            await anyio.sleep_forever()
        self._starts[0].set()

    def on_receive(self, message: Any) -> Any:
        raise ValueError(message)


class HangsAtOnce(TaskActor):
    def __init__(self, hangs: anyio.Event) -> None:
        super().__init__()
        self._hangs = hangs

    async def on_start(self) -> None:
        self._hangs.set()
        await anyio.sleep_forever()


STRATEGIES = ["one_for_one", "one_for_all", "rest_for_one"]


@pytest.mark.anyio
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("nested", [False, True])
async def test_a_system_closes_while_a_restart_hangs(strategy: Any, nested: bool) -> None:
    stopped: list[str] = []

    class Sibling(TaskActor):
        def on_stop(self) -> None:
            stopped.append("sibling")

    with anyio.fail_after(20):
        async with ActorSystem() as system:
            events = [anyio.Event(), anyio.Event()]
            children = [ChildSpec("s", Sibling), ChildSpec("h", HangsLater, (events,), name="h")]
            if nested:
                inner = ChildSpec("inner", Supervisor, (children,), {"strategy": strategy}, type="supervisor")
                top = system.start(Supervisor, [inner])
            else:
                top = system.start(Supervisor, children, strategy=strategy)
            await top.started()
            hanging = system.whereis("h")
            assert hanging is not None
            hanging.tell("die")
            await events[1].wait()
        assert not system.actors()
        assert top.exit_reason is not None
        assert top.exit_reason.kind == "shutdown"
        # With one_for_all it was stopped for the restart before, too.
        assert len(stopped) == (2 if strategy == "one_for_all" else 1)


@pytest.mark.anyio
async def test_a_system_closes_while_a_supervisor_hangs_in_its_own_start() -> None:
    stopped: list[str] = []

    class Sibling(TaskActor):
        def on_stop(self) -> None:
            stopped.append("sibling")

    with anyio.fail_after(20):
        async with ActorSystem() as system:
            hangs = anyio.Event()
            top = system.start(Supervisor, [ChildSpec("s", Sibling), ChildSpec("h", HangsAtOnce, (hangs,))])
            await hangs.wait()
        assert not system.actors()
        assert top.exit_reason is not None
        assert top.exit_reason.kind == "shutdown"
        assert stopped == ["sibling"]


@pytest.mark.anyio
@pytest.mark.parametrize("kind", [Supervisor, DynamicSupervisor])
async def test_a_start_child_that_hangs_is_given_up_when_the_supervisor_is_shut_down(kind: type[Supervisor]) -> None:
    with anyio.fail_after(20):
        async with ActorSystem() as system:
            hangs = anyio.Event()
            sup = system.start(kind)
            answer = sup.proxy().start_child(ChildSpec("h", HangsAtOnce, (hangs,)))
            await hangs.wait()
            assert (await sup.shutdown(None)).kind == "shutdown"
            with pytest.raises(pykka.ActorDeadError):
                await as_awaitable(answer)
            assert not system.actors()


@pytest.mark.anyio
async def test_a_supervisor_ends_its_own_child_supervisor_that_hangs_in_a_restart() -> None:
    with anyio.fail_after(20):
        async with ActorSystem() as system:
            events = [anyio.Event(), anyio.Event()]
            inner = ChildSpec(
                "inner", Supervisor, ([ChildSpec("h", HangsLater, (events,), name="h")],), type="supervisor"
            )
            top = system.start(Supervisor, [inner], intensity=RestartIntensity(1, 60))
            await top.started()
            hanging = system.whereis("h")
            assert hanging is not None
            hanging.tell("die")
            await events[1].wait()
            await as_awaitable(top.proxy().terminate_child("inner"))
            assert [one[1] for one in await as_awaitable(top.proxy().which_children())] == [None]


@pytest.mark.anyio
async def test_a_done_callback_that_raises_keeps_nobody_else_from_hearing() -> None:
    with anyio.fail_after(10):
        async with ActorSystem() as system:
            ref = system.start(Echo)
            heard: list[str] = []

            def bad() -> None:
                raise ValueError("not mine")

            ref.ended.add_done_callback(bad)
            ref.ended.add_done_callback(lambda: heard.append("second"))
            ref.kill()
            await ref.wait()
            assert heard == ["second"]
            assert await system.start(Echo).ask(1, block=False) == 1


def as_awaitable(future: Any) -> Awaitable[Any]:
    return future
