"""`TaskActor`: a Pykka actor that is a task on the event loop instead of a thread, so it can be killed."""

# pyright: reportPrivateUsage=false
# The modules of this package are one unit, and Pykka has its extension points for new actor types in private names.

from __future__ import annotations

import contextvars
import inspect
import itertools
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import anyio
import anyio.lowlevel
from pykka import Actor, ActorDeadError, ActorRegistry, messages
from pykka._envelope import Envelope
from pykka._introspection import get_attr_directly

from conduit_supervision.events import Killed, ZombieFound
from conduit_supervision.exits import (
    KILLED,
    NORMAL,
    SHUTDOWN,
    Exit,
    ExitReason,
    Ignore,
    Shutdown,
    StrayCancellation,
    reason_of,
)
from conduit_supervision.flag import Flag
from conduit_supervision.future import TaskFuture
from conduit_supervision.inbox import Inbox

if TYPE_CHECKING:
    from conduit_supervision.ref import TaskActorRef
    from conduit_supervision.system import ActorSystem

logger = logging.getLogger("conduit_supervision")

current_system: contextvars.ContextVar[ActorSystem | None] = contextvars.ContextVar("current_system", default=None)

_numbers = itertools.count(1)
_FAIR = 16
"""After so many messages in a row the actor gives the loop a turn, even if no handler awaited anything."""


class TaskActor(Actor):
    """An actor on the event loop of its `ActorSystem`.

    Subclass it as you would `pykka.ThreadingActor`; `on_start`, `on_stop`, `on_failure`, `on_receive` and the methods
    that a proxy calls may be plain or ``async``. One message is handled at a time.

    Invariants:
        - `lifespan` is entered before `on_start` and left after `on_stop`, in the actor's own task.
        - An asker always gets an answer: the result, the exception, or `pykka.ActorDeadError`.
        - `kill` ends it whatever it awaits. Code that swallows the cancellation keeps nobody waiting: after
          `zombie_after` seconds the actor counts as ended, and as a zombie until it really is.
        - A handler runs in a copy of the context (contextvars) of whoever sent the message.
    """

    registered: ClassVar[bool] = True
    """False keeps the class out of `pykka.ActorRegistry`: right for short-lived workers."""

    one_shot: ClassVar[bool] = False
    """True ends the actor, with reason "normal", after the first message that it handled."""

    trap_exits: ClassVar[bool] = False
    """True turns the abnormal end of a linked actor into an `Exit` message instead of the actor's own end."""

    zombie_after: ClassVar[float] = 1.0
    """Seconds that a killed actor has for its clean-up before it counts as a zombie."""

    supervises: ClassVar[bool] = False
    """True for supervisors."""

    supervisor: TaskActorRef[Any] | None = None
    """The supervisor that started this actor, if one did."""

    # What an actor begins with is on the class: a short life sets only what changes in it.
    _actor_system: ActorSystem | None = None
    _actor_scope: anyio.CancelScope | None = None
    _actor_exit: ExitReason | None = None
    _actor_wanted: ExitReason | None = None
    _actor_leaving: ExitReason | None = None
    _actor_current: Envelope[Any] | None = None
    _actor_links: set[TaskActorRef[Any]] | None = None
    _actor_finished = False

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        # Pykka's own fields, without its uuid4: per-call actors are started often.
        self.actor_urn = f"urn:conduit:actor:{next(_numbers)}"
        self._actor_inbox = Inbox()
        self.actor_inbox = cast("Any", self._actor_inbox)
        self.actor_stopped = cast("Any", Flag())
        from conduit_supervision.ref import TaskActorRef

        # Pykka declares its own ref type, which ours extends; its type parameter is invariant.
        self._actor_ref: TaskActorRef[Self] = TaskActorRef(self)  # pyright: ignore[reportIncompatibleVariableOverride]
        self._actor_started: TaskFuture[None] = TaskFuture()
        self._actor_born = time.monotonic()

    # Pykka's extension points

    @classmethod
    def start(  # pyright: ignore[reportIncompatibleMethodOverride]
        cls, *args: Any, **kwargs: Any
    ) -> TaskActorRef[Self]:
        """Start the actor in the current `ActorSystem`; the arguments go to ``__init__``.

        Raises:
            RuntimeError: no system is open here; use ``system.start(...)``.
        """
        system = current_system.get()
        if system is None:
            raise RuntimeError(f"{cls.__name__}.start() needs an open ActorSystem; or use system.start({cls.__name__})")
        return system.start(cls, *args, **kwargs)

    @staticmethod
    def _create_actor_inbox() -> Any:
        return Inbox()

    @staticmethod
    def _create_future() -> TaskFuture[Any]:
        return TaskFuture()

    def _start_actor_loop(self) -> None:
        raise RuntimeError("a TaskActor is started by its ActorSystem")

    @property
    def actor_ref(self) -> TaskActorRef[Self]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The reference by which others reach this actor."""
        return self._actor_ref

    @property
    def actor_system(self) -> ActorSystem:
        """The system that the actor lives in."""
        assert self._actor_system is not None, "the actor is not started yet"
        return self._actor_system

    # For subclasses

    def lifespan(self) -> AbstractAsyncContextManager[object]:
        """An async context manager around the whole life; override it to hold resources."""
        return _no_lifespan()

    def on_start(self) -> Any:
        """Runs first. `Ignore` refuses to start; any other exception is a failed start."""

    def on_stop(self) -> Any:
        """Runs last, unless the actor failed or was killed. What it raises is the exit reason."""

    def on_failure(
        self,
        exception_type: type[BaseException] | None,
        exception_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> Any:
        """Runs instead of `on_stop` after an unhandled exception."""

    def init_ack(self) -> None:
        """Count as started from now on, before the lifespan's entry is done (Erlang's ``proc_lib:init_ack``).

        A failure after this is a crash under the restart rules; one before it is a failed start.
        """
        self._actor_started.set_if_pending(None)

    def link(self, ref: TaskActorRef[Any]) -> None:
        """Tie two lives together: if one ends abnormally the other ends with the same reason, unless it traps exits."""
        other = ref.actor()
        if other is None or other._actor_exit is not None:
            self._actor_linked_down(ref, KILLED if other is None else cast("ExitReason", other._actor_exit))
            return
        self._actor_link(ref)
        other._actor_link(self._actor_ref)

    def unlink(self, ref: TaskActorRef[Any]) -> None:
        """Undo `link`."""
        self._actor_unlink(ref)
        other = ref.actor()
        if other is not None:
            other._actor_unlink(self._actor_ref)

    def _actor_link(self, ref: TaskActorRef[Any]) -> None:
        if self._actor_links is None:
            self._actor_links = set()
        self._actor_links.add(ref)

    def _actor_unlink(self, ref: TaskActorRef[Any]) -> None:
        if self._actor_links is not None:
            self._actor_links.discard(ref)

    # The life, run as one task by the system

    async def _actor_run(self) -> None:
        reason: ExitReason | None = None
        try:
            with anyio.CancelScope() as self._actor_scope:
                if self._actor_wanted is not None:
                    self._actor_scope.cancel()
                reason = await self._actor_live()
            if reason is None:  # the scope was cancelled
                reason = self._actor_wanted or KILLED
        except anyio.get_cancelled_exc_class() as cancellation:
            # The system goes down, or somebody got hold of this task. Either way it ends here, and nothing else does.
            reason = self._actor_wanted or self._actor_cancelled_by(cancellation)
        except BaseException as error:
            reason = self._actor_wanted or reason_of(error)
            if not isinstance(error, (Exception, BaseExceptionGroup)):
                raise
        finally:
            self._actor_finish(reason or KILLED)
            self._actor_finished = True
            self.actor_system._forget_zombie(self._actor_ref)

    async def _actor_run_one(self, envelope: Envelope[Any]) -> None:
        """The whole life of a plain one-shot actor: no inbox, no hooks, one message.

        The task was made in the sender's context, so the handler needs no other.
        """
        reason: ExitReason | None = None
        try:
            with anyio.CancelScope() as self._actor_scope:
                if self._actor_wanted is not None:
                    self._actor_scope.cancel()
                self._actor_started.set_if_pending(None)
                result = self.on_receive(envelope.message)
                if inspect.iscoroutine(result):
                    result = await result
                self._actor_reply(envelope, result)
                reason = NORMAL
        except anyio.get_cancelled_exc_class() as cancellation:
            reason = self._actor_wanted or self._actor_cancelled_by(cancellation)
            if reason.exception is not None:
                cast("TaskFuture[Any]", envelope.reply_to).fail_if_pending(reason.exception)
        except Exception as error:  # noqa: BLE001 (the asker's, as in any actor; there is no next message to live for)
            cast("TaskFuture[Any]", envelope.reply_to).fail_if_pending(error)
            reason = NORMAL
        finally:
            self._actor_current = None if reason is not None else self._actor_current
            self._actor_finish(reason or self._actor_wanted or KILLED)
            self._actor_finished = True
            self.actor_system._forget_zombie(self._actor_ref)

    async def _actor_live(self) -> ExitReason:
        lifespan = self.lifespan() if type(self).lifespan is not TaskActor.lifespan else None
        if lifespan is None:
            return await self._actor_work()
        reason: ExitReason | None = None
        async with lifespan:
            reason = await self._actor_work()
        # A lifespan that swallowed what ended the actor leaves no reason.
        return reason or NORMAL

    async def _actor_work(self) -> ExitReason:
        if type(self).on_start is not TaskActor.on_start:
            await _maybe(self.on_start())
        self._actor_started.set_if_pending(None)
        try:
            reason = await self._actor_receive_loop()
        except Shutdown as wish:
            reason = reason_of(wish)
        except Exception as error:
            if type(self).on_failure is not TaskActor.on_failure and not isinstance(error, _CONTROL):
                await _maybe(self.on_failure(type(error), error, error.__traceback__))
            raise
        self.actor_stopped.set()
        if type(self).on_stop is not TaskActor.on_stop:
            await _maybe(self.on_stop())
        return reason

    async def _actor_receive_loop(self) -> ExitReason:
        inbox = self._actor_inbox
        in_a_row = 0
        while True:
            if self._actor_leaving is not None:
                return self._actor_leaving
            item = inbox.pop()
            if item is None:
                in_a_row = 0
                await inbox.wait(self._actor_is_leaving)
                continue
            in_a_row += 1
            if in_a_row % _FAIR == 0:
                await anyio.lowlevel.checkpoint()
            envelope, context = item
            if isinstance(envelope.message, messages._ActorStop):
                self.actor_stopped.set()
                self._actor_reply(envelope, True)
                return NORMAL
            await self._actor_handle(envelope, context)
            if self.one_shot:
                return NORMAL

    def _actor_is_leaving(self) -> bool:
        return self._actor_leaving is not None

    async def _actor_handle(self, envelope: Envelope[Any], context: contextvars.Context) -> None:
        self._actor_current = envelope
        try:
            # The handler itself, and each step of the coroutine that it may return, run in the sender's context.
            result = context.run(self._handle_receive, envelope.message)
            if inspect.iscoroutine(result):
                result = await _InContext(cast("Coroutine[Any, Any, Any]", result), context)
            elif isinstance(result, Awaitable) and not isinstance(result, TaskFuture):
                result = await _InContext(_await(cast("Awaitable[Any]", result)), context)
        except anyio.get_cancelled_exc_class() as cancellation:
            reason = self._actor_cancelled_by(cancellation)
            if reason.exception is None:
                raise
            if envelope.reply_to is None:
                raise reason.exception from cancellation
            cast("TaskFuture[Any]", envelope.reply_to).fail_if_pending(reason.exception)
        except Exception as error:
            if envelope.reply_to is None or isinstance(error, _CONTROL):
                raise
            logger.debug("%s raised to its asker", self, exc_info=error)
            cast("TaskFuture[Any]", envelope.reply_to).fail_if_pending(error)
        else:
            self._actor_reply(envelope, result)
        self._actor_current = None

    def _actor_cancelled_by(self, cancellation: BaseException) -> ExitReason:
        """KILLED for a real cancellation; the error that it is for one that nobody asked for."""
        if not self.actor_system.loop.is_stray(cancellation):
            return KILLED
        stray = StrayCancellation("something that the actor awaited was cancelled by somebody else")
        stray.__cause__ = cancellation
        return ExitReason("error", stray)

    def _actor_reply(self, envelope: Envelope[Any], result: Any) -> None:
        if envelope.reply_to is not None:
            cast("TaskFuture[Any]", envelope.reply_to).set_if_pending(result)

    def _handle_receive(self, message: Any) -> Any:
        match message:
            case messages.ProxyCall(attr_path, args, kwargs):
                return get_attr_directly(self, attr_path)(*args, **kwargs)
            case messages.ProxyGetAttr(attr_path):
                return get_attr_directly(self, attr_path)
            case messages.ProxySetAttr(attr_path, value):
                return setattr(get_attr_directly(self, attr_path[:-1]), attr_path[-1], value)
            case _:
                return self.on_receive(message)

    # The end; everything below runs on the loop

    def _actor_request_shutdown(self) -> None:
        """Leave after the message in hand."""
        if self._actor_leaving is None:
            self._actor_leaving = SHUTDOWN
            self.actor_stopped.set()
            self._actor_inbox.wake()

    def _actor_kill(self, reason: ExitReason = KILLED) -> None:
        """Interrupt now, answer all askers now, and wait for nothing."""
        if self._actor_exit is not None or self._actor_wanted is not None:
            return
        self._actor_wanted = reason
        self.actor_stopped.set()
        if self._actor_scope is not None:
            self._actor_scope.cancel()
        self._actor_fail_askers()
        system = self.actor_system
        if reason is KILLED:
            system.emit(Killed(self._actor_ref))
        system.call_later(self.zombie_after, self._actor_give_up_on, reason)

    def _actor_give_up_on(self, reason: ExitReason) -> None:
        if self._actor_finished:
            return
        logger.error("%s swallows its cancellation: it is abandoned, and a zombie until it ends", self)
        self.actor_system._add_zombie(self._actor_ref)
        self.actor_system.emit(ZombieFound(self._actor_ref))
        self._actor_finish(reason)

    def _actor_finish(self, reason: ExitReason) -> None:
        """Tell everybody. Exactly once: a zombie's real end comes second and is silent."""
        if self._actor_exit is not None:
            return
        self._actor_exit = reason
        watched = self.supervisor is not None or self._actor_ref.ended.awaited or self._actor_started.awaited
        self.actor_stopped.set()
        if self.registered:
            ActorRegistry.unregister(self._actor_ref)
        self.actor_system._forget(self._actor_ref)
        if not self._actor_started.done():
            error = reason.exception or ActorDeadError(f"{self._actor_ref} ended before it had started")
            self._actor_started.fail_if_pending(error)
        if reason.kind == "error" and not watched and not isinstance(reason.exception, Ignore):
            # Nobody watches it, so the log is the only place where this is seen.
            logger.error("%s failed", self, exc_info=reason.exception)
        self._actor_fail_askers()
        self._actor_ref.ended.set_if_pending(reason)
        links, self._actor_links = self._actor_links, None
        for ref in links or ():
            other = ref.actor()
            if other is not None:
                other._actor_unlink(self._actor_ref)
                other._actor_linked_down(self._actor_ref, reason)

    def _actor_linked_down(self, ref: TaskActorRef[Any], reason: ExitReason) -> None:
        if self.trap_exits:
            self._actor_inbox.put(Envelope(Exit(ref, reason)))
        elif reason.abnormal:
            self._actor_kill(reason)

    def _actor_fail_askers(self) -> None:
        error = ActorDeadError(f"{self._actor_ref} ended before it handled the message")
        current, self._actor_current = self._actor_current, None
        if current is not None and current.reply_to is not None:
            cast("TaskFuture[Any]", current.reply_to).fail_if_pending(error)
        while (item := self._actor_inbox.pop()) is not None:
            future = cast("TaskFuture[Any] | None", item[0].reply_to)
            if future is None:
                continue
            if isinstance(item[0].message, messages._ActorStop):
                future.set_if_pending(True)
            else:
                future.fail_if_pending(error)


_CONTROL = (Ignore, Shutdown)
"""Not failures of a message but wishes of the actor: they end it even when somebody asked."""


class _InContext:
    """Drives a coroutine so that each of its steps runs in `context`, while the task around it stays the same."""

    __slots__ = ("_context", "_coroutine")

    def __init__(self, coroutine: Coroutine[Any, Any, Any], context: contextvars.Context) -> None:
        self._coroutine = coroutine
        self._context = context

    def __await__(self) -> Generator[Any, Any, Any]:
        run, coroutine = self._context.run, self._coroutine
        step: Callable[..., Any] = coroutine.send
        argument: Any = None
        try:
            while True:
                try:
                    yielded = run(step, argument)
                except StopIteration as stop:
                    return stop.value
                try:
                    argument = yield yielded
                    step = coroutine.send
                except BaseException as error:  # noqa: BLE001 (thrown into the coroutine, as `yield from` does)
                    argument = error
                    step = coroutine.throw
        finally:
            coroutine.close()


async def _await(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


async def _maybe(result: Any) -> None:
    if isinstance(result, Awaitable):
        await result


@asynccontextmanager
async def _no_lifespan() -> AsyncGenerator[None, None]:
    yield


__all__ = ["TaskActor", "current_system"]
