"""The one place that knows which event loop runs: asyncio or trio.

anyio covers all else. Not covered by it: a task that belongs to no task group of the caller (so that a system can be
opened in one task and closed in another), and a thread-safe call into the loop that does not wait.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Awaitable, Callable
from typing import Any, Protocol


class Waiter(Protocol):
    """An event for one task: cheaper than anyio's, which is made for many. `set` from the loop's thread only."""

    def set(self) -> None:
        """Wake the one who waits, or let it pass when it comes. A second time does nothing."""
        ...

    async def wait(self) -> None:
        """Return once it is set. Can be cancelled."""
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

    def waiter(self) -> Waiter:
        """A fresh waiter, for a task of this loop."""
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

    def waiter(self) -> Waiter:
        return _AsyncioWaiter(self._loop)


class _TrioLoop:
    def __init__(self) -> None:
        import trio

        self._token = trio.lowlevel.current_trio_token()
        self.thread_id = threading.get_ident()

    def call_soon(self, function: Callable[..., object], *args: object) -> None:
        import trio

        try:
            self._token.run_sync_soon(function, *args)
        except trio.RunFinishedError:
            return

    def spawn(self, function: Callable[[], Awaitable[None]], name: str) -> None:
        import trio

        trio.lowlevel.spawn_system_task(_run, function, name=name)

    def waiter(self) -> Waiter:
        import trio

        return trio.Event()


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
