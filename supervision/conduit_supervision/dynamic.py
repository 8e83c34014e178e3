"""`DynamicSupervisor`: for many children that come and go, started on demand."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar, cast

import anyio
from pykka import ActorRef
from pykka._envelope import Envelope

from conduit_supervision.actor import TaskActor
from conduit_supervision.backoff import Backoff
from conduit_supervision.child import Child
from conduit_supervision.future import TaskFuture
from conduit_supervision.ref import TaskActorRef
from conduit_supervision.spec import AutoShutdown, ChildError, ChildSpec, RestartIntensity
from conduit_supervision.supervisor import Supervisor

A = TypeVar("A", bound=TaskActor)
_HOOKS = ("lifespan", "on_start", "on_stop", "on_failure")


class DynamicSupervisor(Supervisor):
    """A one_for_one supervisor that starts with no children, has no order among them, and stops them in parallel.

    Besides children by spec it has *workers*: anonymous, temporary, killed at once when the supervisor ends. They
    cost little, see `start_worker`.

    Args:
        max_children: more are refused with `ChildError` "max_children"; None: no bound.
    """

    def __init__(
        self,
        *,
        max_children: int | None = None,
        intensity: RestartIntensity | None = None,
        backoff: Backoff | None = None,
        auto_shutdown: AutoShutdown = "never",
    ) -> None:
        super().__init__((), intensity=intensity, backoff=backoff, auto_shutdown=auto_shutdown)
        self._max_children = max_children
        self._workers: dict[TaskActorRef[Any], None] = {}

    async def start_child(self, spec: ChildSpec) -> ActorRef[Any] | None:
        self._refuse_more(spec.id)
        return await super().start_child(spec)

    def start_worker(self, actor: A) -> TaskActorRef[A]:
        """Start an actor object as a worker, without a message to the supervisor.

        Only for code that runs on the actors' own loop: as nothing is awaited, no handler of the supervisor can be
        half-way, so this is as good as a message and costs no task switch.

        Raises:
            RuntimeError: called from another thread, or the supervisor has ended.
            ChildError: max_children.
        """
        return self._start_worker(actor, None)

    def _start_worker(self, actor: A, envelope: Envelope[Any] | None) -> TaskActorRef[A]:
        system = self.actor_system
        if not system.in_loop() or self.actor_stopped.is_set():
            raise RuntimeError("start_worker is for the actors' own loop, while the supervisor lives")
        self._refuse_more(None)
        ref = actor.actor_ref
        actor.supervisor = self.actor_ref
        self._workers[ref] = None
        system._adopt(actor, None)
        ref.ended.add_done_callback(lambda: self._workers.pop(ref, None))
        system._spawn(actor, envelope)
        return ref

    def run_worker(self, actor: A, message: object) -> tuple[TaskActorRef[A], TaskFuture[Any]]:
        """`start_worker` and `ask` in one, for a one-shot actor: its ref, and the future of its reply.

        An actor with no lifespan and no ``on_start`` or ``on_stop`` of its own costs the least: it needs no inbox.

        Raises:
            RuntimeError, ChildError: as `start_worker`.
        """
        kind = type(actor)
        plain = kind.one_shot and all(
            getattr(kind, name) is getattr(TaskActor, name)
            for name in ("lifespan", "on_start", "on_stop", "on_failure")
        )
        if not plain:
            ref = self.start_worker(actor)
            return ref, ref.ask(message, block=False)
        reply: TaskFuture[Any] = TaskFuture()
        envelope = Envelope(message, reply_to=reply)
        actor._actor_current = envelope
        return self._start_worker(actor, envelope), reply

    async def terminate_child(self, child_id: object) -> None:
        """Stop a child, given by its id or its ref, and forget it. See `Supervisor.terminate_child`."""
        if isinstance(child_id, TaskActorRef) and child_id in self._workers:
            child_id.kill()
            await child_id.ended
            return
        await super().terminate_child(cast("object", child_id))

    def which_children(self) -> list[tuple[Any, Any, str]]:
        return super().which_children() + [(ref.actor_urn, ref, "worker") for ref in self._workers]

    def count_children(self) -> dict[str, int]:
        counts = super().count_children()
        for key in ("specs", "active", "workers"):
            counts[key] += len(self._workers)
        return counts

    @property
    def workers(self) -> list[TaskActorRef[Any]]:
        """The workers that run now."""
        return list(self._workers)

    async def on_stop(self) -> None:
        workers = list(self._workers)
        for ref in workers:
            ref.kill()
        await super().on_stop()
        for ref in workers:
            await ref.ended

    def _actor_finish(self, reason: Any) -> None:
        for ref in list(self._workers):
            ref.kill()
        super()._actor_finish(reason)

    def _find(self, child_id: object) -> Child:
        if isinstance(child_id, ActorRef):
            for child in self._children.values():
                if child.ref is child_id:
                    return child
        return super()._find(cast("object", child_id))

    def _refuse_more(self, child_id: object) -> None:
        if self._max_children is not None and len(self._children) + len(self._workers) >= self._max_children:
            raise ChildError("max_children", child_id)

    async def _stop_children(self, children: Sequence[Child]) -> None:
        async with anyio.create_task_group() as tasks:
            for child in children:
                tasks.start_soon(super()._stop_children, [child])
