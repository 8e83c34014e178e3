"""The one place that knows which event loop runs: asyncio or trio.

anyio covers all else. Not covered by it: a task that belongs to no task group of the caller (so that a system can be
opened in one task and closed in another), and a thread-safe call into the loop that does not wait. And an actor's task
is made by the loop's own task group: anyio's makes a handle, an event and a second scope for each task, which costs as
much as the rest of a short actor's life.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import trio


class Waiter(Protocol):
    """An event for one task: cheaper than anyio's, which is made for many. `set` from the loop's thread only."""

    def set(self) -> None:
        """Wake the one who waits, or let it pass when it comes. A second time does nothing."""
        ...

    async def wait(self) -> None:
        """Return once it is set. Can be cancelled."""
        ...


class Tasks(Protocol):
    """The tasks of an open task group. From the loop's thread only."""

    def start_soon(self, function: Callable[..., Coroutine[Any, Any, None]], *args: object, name: str) -> None:
        """Run a coroutine function in a task of the group. What it raises ends the group, and is raised there."""
        ...

    def cancel(self) -> None:
        """End the group: cancel its host and all its tasks, each once. The cancellation is not seen outside."""
        ...


class Loop(Protocol):
    """A running event loop, usable from any thread."""

    thread_id: int

    def call_soon(self, function: Callable[..., object], *args: object) -> None:
        """Call a function in the loop's thread, in order, without waiting for it. No error when the loop is closed."""
        ...

    def spawn(self, function: Callable[[], Awaitable[None]], name: str) -> None:
        """Run a coroutine function in a task of its own, outside every task group. From the loop's thread only."""
        ...

    def tasks(self) -> AbstractAsyncContextManager[Tasks]:
        """Open a task group in the current task; leaving it waits for all its tasks."""
        ...

    def waiter(self) -> Waiter:
        """A fresh waiter, for a task of this loop."""
        ...

    def is_stray(self, cancellation: BaseException) -> bool:
        """Whether nobody asked the current task to be cancelled, though a cancellation was raised in it."""
        ...


class _AsyncioWaiter:
    __slots__ = ("_future",)

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._future: asyncio.Future[None] = loop.create_future()

    def set(self) -> None:
        if not self._future.done():
            self._future.set_result(None)

    async def wait(self) -> None:
        await self._future


class _AsyncioTasks:
    def __init__(self, group: asyncio.TaskGroup, host: asyncio.Task[Any]) -> None:
        self._group = group
        self._host = host
        self.cancelled = False

    def start_soon(self, function: Callable[..., Coroutine[Any, Any, None]], *args: object, name: str) -> None:
        self._group.create_task(function(*args), name=name)

    def cancel(self) -> None:
        if not self.cancelled:
            self.cancelled = True
            self._host.cancel()  # asyncio's group then cancels the rest


class _AsyncioLoop:
    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[Any]] = set()
        self.thread_id = threading.get_ident()

    def call_soon(self, function: Callable[..., object], *args: object) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(function, *args)

    def spawn(self, function: Callable[[], Awaitable[None]], name: str) -> None:
        task = self._loop.create_task(_run(function), name=name)
        self._tasks.add(task)  # the loop itself keeps only a weak reference
        task.add_done_callback(self._tasks.discard)

    @asynccontextmanager
    async def tasks(self) -> AsyncGenerator[Tasks, None]:
        host = asyncio.current_task()
        assert host is not None
        tasks: _AsyncioTasks | None = None
        try:
            async with asyncio.TaskGroup() as group:
                tasks = _AsyncioTasks(group, host)
                yield tasks
        except asyncio.CancelledError:
            if tasks is None or not tasks.cancelled:
                raise
            host.uncancel()

    def waiter(self) -> Waiter:
        return _AsyncioWaiter(self._loop)

    def is_stray(self, cancellation: BaseException) -> bool:
        # anyio's scopes go through Task.cancel as well, and take the request back when they are left.
        task = asyncio.current_task()
        return isinstance(cancellation, asyncio.CancelledError) and task is not None and not task.cancelling()


class _TrioWaiter:
    """`trio.Event` keeps a set of waiting tasks; here there is one."""

    __slots__ = ("_is_set", "_lowlevel", "_task")

    def __init__(self, lowlevel: Any) -> None:
        self._lowlevel = lowlevel
        self._is_set = False
        self._task: Any = None

    def set(self) -> None:
        self._is_set = True
        task, self._task = self._task, None
        if task is not None:
            self._lowlevel.reschedule(task)

    async def wait(self) -> None:
        if self._is_set:
            await self._lowlevel.checkpoint()
            return
        self._task = self._lowlevel.current_task()
        await self._lowlevel.wait_task_rescheduled(self._abort)

    def _abort(self, _raise_cancel: object) -> Any:
        self._task = None
        return self._lowlevel.Abort.SUCCEEDED


class _TrioTasks:
    def __init__(self, nursery: trio.Nursery) -> None:
        # The same function, whose type ties the arguments to the function's own.
        self.start_soon: Any = nursery.start_soon
        self.cancel = nursery.cancel_scope.cancel


class _TrioLoop:
    def __init__(self) -> None:
        import trio

        self._trio = trio
        self._token = trio.lowlevel.current_trio_token()
        self.thread_id = threading.get_ident()

    def call_soon(self, function: Callable[..., object], *args: object) -> None:
        try:
            self._token.run_sync_soon(function, *args)
        except self._trio.RunFinishedError:
            return

    def spawn(self, function: Callable[[], Awaitable[None]], name: str) -> None:
        self._trio.lowlevel.spawn_system_task(_run, function, name=name)

    @asynccontextmanager
    async def tasks(self) -> AsyncGenerator[Tasks, None]:
        async with self._trio.open_nursery() as nursery:
            yield _TrioTasks(nursery)

    def waiter(self) -> Waiter:
        return _TrioWaiter(self._trio.lowlevel)

    def is_stray(self, cancellation: BaseException) -> bool:
        return False  # only trio itself can make a Cancelled


async def _run(function: Callable[[], Awaitable[None]]) -> None:
    await function()


def current_loop() -> Loop:
    """The running loop.

    Raises:
        RuntimeError: no loop runs in this thread.
    """
    try:
        return _AsyncioLoop()
    except RuntimeError:
        pass
    if "trio" in sys.modules:
        try:
            return _TrioLoop()
        except RuntimeError:
            pass
    raise RuntimeError("no event loop runs in this thread; use ActorSystem.in_thread()")
