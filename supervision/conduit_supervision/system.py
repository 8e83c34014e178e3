"""`ActorSystem`: the home of actors on one event loop."""

# pyright: reportPrivateUsage=false
# The modules of this package are one unit, and Pykka has its extension points for new actor types in private names.

from __future__ import annotations

import contextvars
import logging
import threading
import warnings
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self, TypeVar

import anyio
from pykka import ActorRegistry
from pykka._envelope import Envelope

from conduit_supervision import registry
from conduit_supervision.actor import TaskActor, current_system
from conduit_supervision.events import Event
from conduit_supervision.exits import SHUTDOWN
from conduit_supervision.future import TaskFuture, loops_by_thread
from conduit_supervision.loops import Loop, Tasks, current_loop
from conduit_supervision.ref import TaskActorRef
from conduit_supervision.tree import Node, describe
from conduit_supervision.watchdog import LoopWatchdog

A = TypeVar("A", bound=TaskActor)
logger = logging.getLogger("conduit_supervision")

registry.install()

_open_on: dict[int, int] = {}  # thread id -> number of systems whose loop runs there


class ActorSystem:
    """Runs actors in the caller's event loop; leaving it stops all of them.

    The actors' tasks belong to a host task of the system's own, not to the task that opened it: it may be entered in
    one task and left in another (fixtures, web application life spans), and a cancelled owner can still close it.

    Args:
        shutdown_timeout: seconds that each actor gets to end when the system closes; then it is killed.
        blocked_after: log the stack that keeps the event loop from running for so many seconds; None: do not watch.
    """

    def __init__(self, *, shutdown_timeout: float = 5.0, blocked_after: float | None = None) -> None:
        self._shutdown_timeout = shutdown_timeout
        self._blocked_after = blocked_after
        self._watchdog: LoopWatchdog | None = None
        self._loop: Loop | None = None
        self._tasks: Tasks | None = None
        self._actors: dict[TaskActorRef[Any], None] = {}
        self._names: dict[str, TaskActorRef[Any]] = {}
        self._names_of: dict[TaskActorRef[Any], list[str]] = {}
        self._zombies: dict[TaskActorRef[Any], None] = {}
        self._listeners: list[Callable[[Event], object]] = []
        self._outside: deque[tuple[Callable[..., object], tuple[object, ...]]] = deque()
        self._closing = False
        self._ended: anyio.Event | None = None
        self._failure: BaseException | None = None

    # Life

    async def __aenter__(self) -> Self:
        if self._loop is not None:
            raise RuntimeError("an ActorSystem is opened once only")
        self._loop = current_loop()
        self._ended = anyio.Event()
        self._outside_wake = anyio.Event()
        ready = anyio.Event()
        self._previous = current_system.get()
        context = contextvars.copy_context()
        thread = self._loop.thread_id
        _open_on[thread] = _open_on.get(thread, 0) + 1
        loops_by_thread[thread] = self._loop

        async def host() -> None:
            await self._host(ready)

        context.run(self._loop.spawn, host, "conduit actors")
        await ready.wait()
        if self._blocked_after is not None:
            self._watchdog = LoopWatchdog(self._loop, self._blocked_after)
            self._watchdog.start()
        current_system.set(self)
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self.close()
        if current_system.get() is self:
            current_system.set(self._previous)
        if self._failure is not None:
            raise self._failure

    async def close(self) -> None:
        """Stop all actors, in reverse order of their start, and wait until they have ended.

        It finishes even if the calling task is cancelled meanwhile; each actor has `shutdown_timeout` seconds, and one
        that cannot even be killed is left behind as a zombie.
        """
        if self._loop is None or self._ended is None:
            return
        first = not self._closing
        self._closing = True
        if self._watchdog is not None:
            self._watchdog.stop()
        with anyio.CancelScope(shield=True):
            if first and self._tasks is not None:
                await self._stop_all()
                self._tasks.cancel()
            with anyio.move_on_after(self._shutdown_timeout):
                await self._ended.wait()
        if first:
            thread = self._loop.thread_id
            _open_on[thread] -= 1
            if not _open_on[thread]:
                del _open_on[thread]
                loops_by_thread.pop(thread, None)

    async def _stop_all(self) -> None:
        # A supervisor stops its own children; asking only those that have no supervisor keeps the order right.
        while self._actors:
            everyone = list(reversed(self._actors))
            for ref in [one for one in everyone if _supervisor_of(one) is None] or everyone:
                actor = ref.actor()
                # A supervisor's time is that of its children, each of which is bounded.
                timeout = None if actor is not None and actor.supervises else self._shutdown_timeout
                await ref.shutdown(timeout)
                self._actors.pop(ref, None)

    async def _host(self, ready: anyio.Event) -> None:
        assert self._ended is not None
        current_system.set(self)
        try:
            async with self.loop.tasks() as self._tasks:
                ready.set()
                await self._serve_outside()
        except anyio.get_cancelled_exc_class():
            if not self._closing:
                # The loop itself goes down without having closed us.
                warnings.warn(
                    "an ActorSystem was not closed before its event loop ended", ResourceWarning, stacklevel=1
                )
            raise
        except BaseException as error:  # noqa: BLE001 (kept for the one who closes the system)
            self._failure = error
        finally:
            self._closing = True
            self._tasks = None
            self._ended.set()

    async def _serve_outside(self) -> None:
        # Functions from other threads run here, inside a task: anyio allows little in a bare loop callback.
        while True:
            self._outside_wake = anyio.Event()
            while self._outside:
                function, args = self._outside.popleft()
                function(*args)
            await self._outside_wake.wait()

    def run_soon(self, function: Callable[..., object], *args: object) -> None:
        """Run a function on the actors' loop: now if this is its thread, else soon, in order, without waiting."""
        if self.in_loop():
            function(*args)
            return
        self._outside.append((function, args))
        self.loop.call_soon(self._wake_outside)

    def _wake_outside(self) -> None:
        self._outside_wake.set()

    @classmethod
    @contextmanager
    def in_thread(cls, *, backend: str = "asyncio", **options: Any) -> Generator[ActorSystem, None, None]:
        """A system in an event loop of its own, in a background thread. Blocking calls work in every other thread."""
        system = cls(**options)
        opened: TaskFuture[None] = TaskFuture()
        close: TaskFuture[None] = TaskFuture()

        async def main() -> None:
            async with system:
                opened.set()
                await close

        def run() -> None:
            try:
                anyio.run(main, backend=backend)
            except BaseException as error:
                if not opened.fail_if_pending(error):
                    raise

        thread = threading.Thread(target=run, name="conduit actors")
        thread.start()
        token = None
        try:
            opened.get()
            token = current_system.set(system)
            yield system
        finally:
            if token is not None:
                current_system.reset(token)
            close.set_if_pending()
            thread.join()

    # Starting

    @property
    def loop(self) -> Loop:
        """The loop that the actors run on.

        Raises:
            RuntimeError: the system is not open yet.
        """
        if self._loop is None:
            raise RuntimeError("the ActorSystem is not open")
        return self._loop

    def in_loop(self) -> bool:
        """Whether the calling thread is the one that runs the actors' loop."""
        return self._loop is not None and threading.get_ident() == self._loop.thread_id

    def start(self, actor_class: type[A], *args: Any, name: str | None = None, **kwargs: Any) -> TaskActorRef[A]:
        """Start an actor, from any thread. `name` registers it, so that `whereis` finds it.

        Returns at once; `await ref.started()` waits until it is up.

        Raises:
            RuntimeError: the system is closed.
            ValueError: the name is taken.
        """
        if self._closing or self._loop is None:
            raise RuntimeError("the ActorSystem is not open")
        actor = actor_class(*args, **kwargs)
        if not hasattr(actor, "_actor_started"):
            raise TypeError(f"{actor_class.__name__}.__init__ does not call super().__init__()")
        self._adopt(actor, name)
        self.run_soon(self._spawn, actor)
        return actor.actor_ref

    def _adopt(self, actor: TaskActor, name: str | None) -> None:
        ref = actor.actor_ref
        if name is not None:
            self.register(name, ref)
        actor._actor_system = self
        actor._actor_inbox.bind(self.loop)
        self._actors[ref] = None
        if actor.registered:
            ActorRegistry.register(ref)

    def _spawn(self, actor: TaskActor, envelope: Envelope[Any] | None = None) -> None:
        if self._tasks is None:
            actor._actor_finish(SHUTDOWN)
            return
        if envelope is not None:
            self._tasks.start_soon(actor._actor_run_one, envelope, name=type(actor).__name__)
        else:
            self._tasks.start_soon(actor._actor_run, name=type(actor).__name__)

    # Names

    def register(self, name: str, ref: TaskActorRef[Any]) -> None:
        """Give an actor a name. It is free again when the actor ends.

        Raises:
            ValueError: a living actor has the name.
        """
        holder = self._names.get(name)
        if holder is not None and holder is not ref and holder.is_alive():
            raise ValueError(f"the name {name!r} is taken by {holder}")
        self._names[name] = ref
        self._names_of.setdefault(ref, []).append(name)

    def unregister(self, name: str) -> None:
        """Free a name; one that nobody has is no error."""
        self._names.pop(name, None)

    def whereis(self, name: str) -> TaskActorRef[Any] | None:
        """The living actor with this name, or None."""
        ref = self._names.get(name)
        return ref if ref is not None and ref.is_alive() else None

    # Seeing

    def zombies(self) -> list[TaskActorRef[Any]]:
        """Actors that were killed and have not ended: their code swallows the cancellation."""
        return list(self._zombies)

    def actors(self) -> list[TaskActorRef[Any]]:
        """All living actors, in order of their start."""
        return list(self._actors)

    def tree(self) -> Node:
        """The whole tree as plain data; ``str()`` draws it. From any thread, for looking only."""
        return describe(self)

    def subscribe(self, listener: Callable[[Event], object]) -> Callable[[], None]:
        """Call a function with each `Event`, on the actors' loop. It must not block. Returns the way to stop it."""
        self._listeners.append(listener)

        def unsubscribe() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return unsubscribe

    def emit(self, event: Event) -> None:
        """Tell all listeners. What one raises is logged and hurts nobody else."""
        for listener in self._listeners:
            try:
                listener(event)
            except Exception:
                logger.exception("a listener of actor events raised")

    # For actors

    def call_later(self, seconds: float, function: Callable[..., object], *args: object) -> None:
        """Call a function after some time, unless the system closes before. On the loop only."""
        if self._tasks is not None:
            self._tasks.start_soon(_after, seconds, function, args, name="conduit timer")

    def _forget(self, ref: TaskActorRef[Any]) -> None:
        self._actors.pop(ref, None)
        for name in self._names_of.pop(ref, ()):
            if self._names.get(name) is ref:
                del self._names[name]

    def _add_zombie(self, ref: TaskActorRef[Any]) -> None:
        self._zombies[ref] = None

    def _forget_zombie(self, ref: TaskActorRef[Any]) -> None:
        self._zombies.pop(ref, None)


async def _after(seconds: float, function: Callable[..., object], args: tuple[object, ...]) -> None:
    await anyio.sleep(seconds)
    function(*args)


def _supervisor_of(ref: TaskActorRef[Any]) -> object:
    actor = ref.actor()
    return None if actor is None else actor.supervisor
