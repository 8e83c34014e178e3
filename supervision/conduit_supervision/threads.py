"""`pykka.ThreadingActor` children: a thread can be asked to stop, not killed."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import anyio
from pykka import ActorRef, ThreadingActor

from conduit_supervision.events import ZombieFound
from conduit_supervision.exits import KILLED, NORMAL, SHUTDOWN, ExitReason
from conduit_supervision.future import TaskFuture
from conduit_supervision.spec import ChildSpec

if TYPE_CHECKING:
    from conduit_supervision.system import ActorSystem

logger = logging.getLogger("conduit_supervision")


def start_thread_child(
    system: ActorSystem, spec: ChildSpec, on_exit: Callable[[ActorRef[Any], ExitReason], object]
) -> ActorRef[Any]:
    """Start a threading actor and report its end on the system's loop."""
    watched = _watched(cast("type[ThreadingActor]", spec.actor_class))
    ref: ActorRef[Any] = watched.start(*spec.args, **dict(spec.kwargs or {}))
    actor: Any = ref._actor_weakref()  # pyright: ignore[reportPrivateUsage]
    ended: TaskFuture[ExitReason] = actor._conduit_ended
    cast("Any", ref).ended = ended
    ended.add_done_callback(lambda: system.loop.call_soon(on_exit, ref, ended.get()))
    return ref


def _watched(actor_class: type[ThreadingActor]) -> type[ThreadingActor]:
    """The class with its thread's end reported. Pykka has no hook that sees every way in which an actor ends."""

    class Watched(actor_class):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            self._conduit_ended: TaskFuture[ExitReason] = TaskFuture()
            self._conduit_reason = NORMAL
            super().__init__(*args, **kwargs)

        def _handle_failure(self, exception_type: Any, exception_value: Any, traceback: Any) -> None:
            self._conduit_reason = ExitReason("error", exception_value)
            super()._handle_failure(exception_type, exception_value, traceback)

        def _actor_loop(self) -> None:
            try:
                super()._actor_loop()
            finally:
                self._conduit_ended.set_if_pending(self._conduit_reason)

    Watched.__name__ = actor_class.__name__
    Watched.__qualname__ = actor_class.__qualname__
    return Watched


async def stop_thread_child(system: ActorSystem, ref: ActorRef[Any], spec: ChildSpec) -> ExitReason:
    """Ask it to stop and wait for as long as its spec says; one that goes on is reported and left alone."""
    ended: TaskFuture[ExitReason] = cast("Any", ref).ended
    if ref.is_alive():
        ref.stop(block=False)
    timeout = 0.0 if spec.shutdown == "brutal_kill" else None if spec.shutdown == "infinity" else spec.shutdown
    with anyio.move_on_after(timeout):
        reason = await ended
        return SHUTDOWN if reason.kind == "normal" else reason
    logger.error("%s is a thread and did not stop in time: it is abandoned", ref)
    system.emit(ZombieFound(ref))
    return KILLED
