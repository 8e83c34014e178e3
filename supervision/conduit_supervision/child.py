"""One child as a supervisor sees it, and how one is started and stopped, whatever kind of actor it is."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from pykka import ActorRef, ThreadingActor

from conduit_supervision.actor import TaskActor
from conduit_supervision.exits import ExitReason
from conduit_supervision.ref import TaskActorRef
from conduit_supervision.spec import ChildSpec
from conduit_supervision.threads import start_thread_child, stop_thread_child

if TYPE_CHECKING:
    from conduit_supervision.system import ActorSystem


@dataclass(slots=True, eq=False)
class Child:
    """A child's row. `ref` is set exactly while `status` is "running".

    Attributes:
        restarts: how often it was started again in its life.
        attempt: starts in a row without a stable period between them.
        generation: grows with each start and each deliberate stop, so that stale news is told from fresh.
    """

    spec: ChildSpec
    ref: ActorRef[Any] | None = None
    status: Literal["running", "restarting", "stopped"] = "stopped"
    restarts: int = 0
    attempt: int = 0
    started_at: float = 0.0
    generation: int = 0
    last_exit: ExitReason | None = None
    busy: bool = field(default=False)

    def public_ref(self) -> ActorRef[Any] | Literal["restarting"] | None:
        """What `which_children` shows."""
        return "restarting" if self.status == "restarting" else self.ref


OnExit = Callable[[ActorRef[Any], ExitReason], object]


async def start_child(
    system: ActorSystem, supervisor: TaskActorRef[Any], spec: ChildSpec, on_exit: OnExit
) -> ActorRef[Any]:
    """Start a child and wait until it is up. `on_exit` is called once, on the loop, when it ends after that.

    A start that is cancelled, or fails, leaves nothing behind.

    Raises:
        Exception: what the child's start raised (`Ignore` if it refused).
    """
    if issubclass(spec.actor_class, ThreadingActor):
        return start_thread_child(system, spec, on_exit)
    if not issubclass(spec.actor_class, TaskActor):
        raise TypeError(f"child {spec.id!r}: {spec.actor_class.__name__} is neither TaskActor nor ThreadingActor")
    ref = system.start(spec.actor_class, *spec.args, name=spec.name, **dict(spec.kwargs or {}))
    actor = ref.actor()
    assert actor is not None
    actor.supervisor = supervisor
    del actor
    try:
        await ref.started()
    except BaseException:
        # Interrupted while the child hangs in its start, or the start failed: it must not live on unsupervised.
        ref.kill()
        raise
    ref.ended.add_done_callback(lambda: on_exit(ref, _reason(ref)))
    return ref


def _reason(ref: TaskActorRef[Any]) -> ExitReason:
    reason = ref.exit_reason
    assert reason is not None
    return reason


async def stop_child(system: ActorSystem, ref: ActorRef[Any], spec: ChildSpec) -> ExitReason:
    """Stop a child as its spec says and wait until it has ended or counts as a zombie."""
    if not isinstance(ref, TaskActorRef):
        return await stop_thread_child(system, ref, spec)
    if spec.shutdown == "brutal_kill":
        ref.kill()
        return await ref.ended
    return await ref.shutdown(None if spec.shutdown == "infinity" else float(spec.shutdown))


def kill_child(ref: ActorRef[Any]) -> None:
    """End a child without waiting: its supervisor is being killed itself."""
    if isinstance(ref, TaskActorRef):
        ref.kill()
    elif ref.is_alive():
        ref.stop(block=False)


def monotonic() -> float:
    """The clock of restart windows and up-times, in seconds."""
    return time.monotonic()
