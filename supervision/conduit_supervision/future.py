"""`TaskFuture`: a Pykka future that can be awaited on any event loop and waited for in any other thread."""

from __future__ import annotations

import logging
import queue
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable
from functools import reduce as functools_reduce
from types import TracebackType
from typing import Any, TypeAlias, TypeVar, cast

import anyio
import anyio.lowlevel
from pykka import Future, Timeout

from conduit_supervision.loops import Loop, current_loop

T = TypeVar("T")
M = TypeVar("M")
R = TypeVar("R")
J = TypeVar("J")
ExcInfo: TypeAlias = tuple[type[BaseException] | None, BaseException | None, TracebackType | None]

_PENDING: Any = object()
logger = logging.getLogger("conduit_supervision")

# One lock for all futures: it is held for a few instructions only, and a lock per future would cost more.
_lock = threading.Lock()

loops_by_thread: dict[int, Loop] = {}
"""Threads that run an actor system's loop: blocking there would stop the very actors that are waited for."""


class TaskFuture(Future[T]):
    """The reply of an ask.

    `await` it on an event loop, or `get()` it in a thread that runs none. It is set once; every waiter gets the value.
    """

    def __init__(self) -> None:
        super().__init__()
        self._value: Any = _PENDING
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[], object]] | None = None

    def done(self) -> bool:
        """Whether there is a value or an exception."""
        return self._value is not _PENDING

    @property
    def awaited(self) -> bool:
        """Whether somebody waits for it."""
        return bool(self._callbacks)

    def add_done_callback(self, callback: Callable[[], object]) -> None:
        """Call a function once the future is set, in the thread that sets it; at once if it is set already."""
        with _lock:
            if self._value is _PENDING:
                if self._callbacks is None:
                    self._callbacks = []
                self._callbacks.append(callback)
                return
        callback()

    def _settle(self, value: Any, error: BaseException | None) -> bool:
        with _lock:
            if self._value is not _PENDING or self._get_hook is not None:
                return False
            self._error = error
            self._value = value
            callbacks, self._callbacks = self._callbacks, None
        for callback in callbacks or ():
            try:
                callback()
            except Exception:
                # The setter has nothing to do with it, and the other waiters must still be woken.
                logger.exception("a callback of a future raised")
        return True

    def set_if_pending(self, value: Any = None) -> bool:
        """`set`, or False when somebody else was first."""
        return self._settle(value, None)

    def fail_if_pending(self, error: BaseException) -> bool:
        """`set_exception`, or False when somebody else was first."""
        return self._settle(None, error)

    def set(self, value: T | None = None) -> None:
        if not self._settle(value, None):
            raise queue.Full

    def set_exception(self, exc_info: ExcInfo | None = None) -> None:
        kind, error, traceback = exc_info or sys.exc_info()
        if error is None:
            assert kind is not None, "set_exception needs an exception"
            error = kind()
        if not self._settle(None, error.with_traceback(traceback)):
            raise queue.Full

    def set_get_hook(self, func: Callable[[float | None], T]) -> None:
        with _lock:
            if self._value is not _PENDING:
                raise queue.Full
            super().set_get_hook(func)

    def get(self, *, timeout: float | None = None) -> T:
        """Wait in this thread for the value.

        Raises:
            pykka.Timeout: it was not there within `timeout` seconds.
            RuntimeError: this thread runs the actors' own loop, where waiting would be a deadlock; `await` instead.
        """
        if self._value is _PENDING:
            refuse_to_block()
            if self._get_hook is not None:
                return super().get(timeout=timeout)
            waiter = threading.Event()
            self.add_done_callback(waiter.set)
            if not waiter.wait(timeout):
                raise Timeout(f"{timeout} seconds")
        return self._result()

    def _result(self) -> T:
        if self._error is not None:
            raise self._error
        return cast("T", self._value)

    def __await__(self) -> Generator[Any, Any, T]:
        return self._wait().__await__()

    __iter__ = __await__

    async def _wait(self) -> T:
        if self._value is _PENDING:
            if self._get_hook is not None:
                return await anyio.to_thread.run_sync(self.get, abandon_on_cancel=True)
            thread = threading.get_ident()
            loop = loops_by_thread.get(thread) or current_loop()
            waiter = loop.waiter()

            def wake() -> None:
                if threading.get_ident() == thread:
                    waiter.set()
                else:
                    loop.call_soon(waiter.set)

            self.add_done_callback(wake)
            await waiter.wait()
        else:
            await anyio.lowlevel.checkpoint()
        return self._result()

    # Pykka derives futures by get hooks, which can only block. These can be awaited as well.

    def map(self, func: Callable[[T], M]) -> Future[M]:
        return _derive([self], lambda values: func(values[0]))

    def filter(self: Future[Iterable[J]], func: Callable[[J], bool]) -> Future[Iterable[J]]:
        return _derive([self], lambda values: [item for item in values[0] if func(item)])

    def reduce(self: Future[Iterable[J]], func: Callable[[R, J], R], *args: R) -> Future[R]:
        return _derive([self], lambda values: functools_reduce(func, values[0], *args))  # pyright: ignore[reportArgumentType]

    def join(self: Future[Any], *futures: Future[Any]) -> Future[Iterable[Any]]:
        return _derive([self, *futures], list)


def _derive(sources: list[Future[Any]], function: Callable[[list[Any]], M]) -> TaskFuture[M]:
    derived: TaskFuture[M] = TaskFuture()
    if not all(isinstance(source, TaskFuture) for source in sources):
        deadline_hook = _blocking(sources, function)
        derived.set_get_hook(deadline_hook)
        return derived
    left = len(sources)

    def one_done() -> None:
        nonlocal left
        with _lock:
            left -= 1
            last = left == 0
        if last:
            try:
                derived.set_if_pending(function([source.get() for source in sources]))
            except Exception as error:  # noqa: BLE001 (as in Pykka, it is raised to whoever reads the future)
                derived.fail_if_pending(error)

    for source in cast("list[TaskFuture[Any]]", sources):
        source.add_done_callback(one_done)
    return derived


def _blocking(sources: list[Future[Any]], function: Callable[[list[Any]], M]) -> Callable[[float | None], M]:
    def hook(timeout: float | None) -> M:
        deadline = None if timeout is None else time.monotonic() + timeout
        values = [
            source.get(timeout=None if deadline is None else max(deadline - time.monotonic(), 0)) for source in sources
        ]
        return function(values)

    return hook


def refuse_to_block() -> None:
    """Raise RuntimeError in a thread that runs an actor system's event loop."""
    if threading.get_ident() in loops_by_thread:
        raise RuntimeError(
            "this would block the event loop that the actors run on, and wait for ever; "
            "use `await ref.ask(message, block=False)` here"
        )
