"""`Supervisor`: OTP's supervisor as an actor.

It is a state machine with four inputs: a child's end, a due restart, a management call, and its own end.

    child ends ──> restart it?  no ──> forget it (temporary) or keep its spec (transient); auto_shutdown?
                       │ yes
                 too many in the window? yes ──> stop all children, end with "shutdown": the next level decides
                       │ no
                 back-off ──> restart: one_for_one   the child
                                       one_for_all   stop all others in reverse order, start all in order
                                       rest_for_one  the same, for the children from this one on
                 a restart that fails counts as one more restart, and is tried again
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import anyio
from anyio.abc import TaskGroup
from pykka import ActorRef

from conduit_supervision.actor import TaskActor
from conduit_supervision.backoff import Backoff
from conduit_supervision.child import Child, kill_child, monotonic, start_child, stop_child
from conduit_supervision.events import ChildExited, ChildStarted, GaveUp, RestartScheduled
from conduit_supervision.exits import ExitReason, Ignore, Shutdown, reason_of
from conduit_supervision.spec import AutoShutdown, ChildError, ChildSpec, RestartIntensity, RestartWindow, Strategy

# pyright: reportPrivateUsage=false
# The modules of this package are one unit.

logger = logging.getLogger("conduit_supervision")


@dataclass(frozen=True, slots=True)
class _ChildDown:
    child: Child
    generation: int
    reason: ExitReason


@dataclass(frozen=True, slots=True)
class _RestartDue:
    child: Child
    generation: int


class TooManyRestarts(Exception):
    """The cause of a supervisor's exit where the last child left none: it was killed, or ended normally too often."""


class Supervisor(TaskActor):
    """Starts its children in order, restarts them by its strategy, and stops them in reverse order.

    It counts as started when all its children are. If one fails to start, those before it are stopped and the
    supervisor's own start fails with that exception.

    Args:
        children: in the order in which they start.
        strategy: "one_for_one", "one_for_all" or "rest_for_one".
        intensity: how many restarts are too many.
        backoff: the pause before a restart; None: none, as in OTP.
        auto_shutdown: "any_significant" or "all_significant" ends the supervisor, with reason "shutdown", when one or
            the last of its significant children has ended by itself.
    """

    supervises: ClassVar[bool] = True

    def __init__(
        self,
        children: Sequence[ChildSpec] = (),
        *,
        strategy: Strategy = "one_for_one",
        intensity: RestartIntensity | None = None,
        backoff: Backoff | None = None,
        auto_shutdown: AutoShutdown = "never",
    ) -> None:
        super().__init__()
        if strategy not in ("one_for_one", "one_for_all", "rest_for_one"):
            raise ValueError(f"unknown strategy {strategy!r}")
        if auto_shutdown not in ("never", "any_significant", "all_significant"):
            raise ValueError(f"unknown auto_shutdown {auto_shutdown!r}")
        self._strategy = strategy
        self._backoff = backoff
        self._auto_shutdown = auto_shutdown
        self._window = RestartWindow(intensity or RestartIntensity())
        self._children: dict[Any, Child] = {}
        self._tasks: TaskGroup | None = None
        self._starting: anyio.CancelScope | None = None
        for spec in children:
            self._refuse_duplicate(spec)
            self._children[spec.id] = Child(spec)

    # Life

    @asynccontextmanager
    async def lifespan(self) -> AsyncGenerator[None, None]:
        # The timers of restarts that are due later. Whatever ends the supervisor, no child outlives it.
        async with anyio.create_task_group() as self._tasks:
            try:
                yield
            finally:
                self._tasks.cancel_scope.cancel()
                for child in reversed(self._children.values()):
                    ref, child.ref = child.ref, None
                    if ref is not None:
                        kill_child(ref)

    async def on_start(self) -> None:
        for child in list(self._children.values()):
            try:
                await self._start(child)
            except BaseException:
                with anyio.CancelScope(shield=True):
                    await self._stop_children(list(self._children.values()))
                raise

    async def on_stop(self) -> None:
        await self._stop_children(list(self._children.values()))

    async def on_receive(self, message: object) -> Any:
        match message:
            case _ChildDown(child, generation, reason) if child.generation == generation:
                await self._child_down(child, reason)
            case _RestartDue(child, generation) if child.generation == generation and child.status == "restarting":
                await self._restart(child)
            case _:
                pass

    # Management, as in OTP

    async def start_child(self, spec: ChildSpec) -> ActorRef[Any] | None:
        """Add a child and start it. None if it refused to start (`Ignore`); its spec is kept.

        Raises:
            ChildError: already_started or already_present.
            Exception: what the child's start raised; it is not added then.
        """
        self._refuse_duplicate(spec)
        child = self._children[spec.id] = Child(spec)
        try:
            await self._start(child)
        except BaseException:
            self._children.pop(spec.id, None)
            raise
        if child.ref is None and spec.restart == "temporary":
            self._children.pop(spec.id, None)
        return child.ref

    async def terminate_child(self, child_id: object) -> None:
        """Stop a child and keep its spec (a temporary one is forgotten). Stopped already: no error.

        Raises:
            ChildError: not_found.
        """
        child = self._find(child_id)
        await self._stop_children([child])

    async def restart_child(self, child_id: object) -> ActorRef[Any] | None:
        """Start a child that was terminated.

        Raises:
            ChildError: not_found, running or restarting.
            Exception: what the child's start raised; its spec is kept.
        """
        child = self._find(child_id)
        if child.status != "stopped":
            raise ChildError(child.status, child_id)
        await self._start(child)
        return child.ref

    def delete_child(self, child_id: object) -> None:
        """Forget the spec of a child that is not running.

        Raises:
            ChildError: not_found, running or restarting.
        """
        child = self._find(child_id)
        if child.status != "stopped":
            raise ChildError(child.status, child_id)
        del self._children[child_id]

    def get_child_spec(self, child_id: object) -> ChildSpec:
        """The spec of a child.

        Raises:
            ChildError: not_found.
        """
        return self._find(child_id).spec

    def which_children(self) -> list[tuple[Any, Any, str]]:
        """(id, ref or "restarting" or None, type) of each child, in order of their start."""
        return [(child.spec.id, child.public_ref(), child.spec.type) for child in self._children.values()]

    def count_children(self) -> dict[str, int]:
        """How many specs, active children, supervisors and workers there are."""
        specs = [child.spec for child in self._children.values()]
        return {
            "specs": len(specs),
            "active": sum(child.ref is not None for child in self._children.values()),
            "supervisors": sum(spec.type == "supervisor" for spec in specs),
            "workers": sum(spec.type == "worker" for spec in specs),
        }

    def children(self) -> list[Child]:
        """The rows of all children, for `ActorSystem.tree`."""
        return list(self._children.values())

    def _find(self, child_id: object) -> Child:
        child = self._children.get(child_id)
        if child is None:
            raise ChildError("not_found", child_id)
        return child

    def _refuse_duplicate(self, spec: ChildSpec) -> None:
        known = self._children.get(spec.id)
        if known is not None:
            raise ChildError("already_present" if known.status == "stopped" else "already_started", spec.id)

    # Starting and stopping

    async def _start(self, child: Child, *, again: bool = False) -> None:
        if self._actor_leaving is not None:
            raise Shutdown
        child.generation += 1
        generation = child.generation
        inbox = self.actor_ref

        def on_exit(ref: ActorRef[Any], reason: ExitReason) -> None:
            if inbox.is_alive():
                inbox.tell(_ChildDown(child, generation, reason))

        ref: ActorRef[Any] | None = None
        try:
            with anyio.CancelScope() as self._starting:
                ref = await start_child(self.actor_system, self.actor_ref, child.spec, on_exit)
        except Ignore:
            child.ref, child.status = None, "stopped"
            return
        finally:
            self._starting = None
        if ref is None:
            raise Shutdown  # the wish to stop came while the child hung in its start
        child.ref, child.status = ref, "running"
        child.started_at = monotonic()
        child.restarts += again
        self.actor_system.emit(ChildStarted(ref, child.spec.id, self.actor_ref, again))

    def _actor_request_shutdown(self) -> None:
        # A start may hang for ever; whoever waits for the supervisor's end must not wait for that.
        super()._actor_request_shutdown()
        if self._starting is not None:
            self._starting.cancel()

    async def _stop_children(self, children: Sequence[Child]) -> None:
        """Stop children in reverse order; forget the temporary ones."""
        for child in reversed(children):
            child.generation += 1  # what is still in the inbox about it is stale from here on
            ref, child.ref = child.ref, None
            child.status = "stopped"
            if ref is not None:
                child.last_exit = await stop_child(self.actor_system, ref, child.spec)
            if child.spec.restart == "temporary":
                self._children.pop(child.spec.id, None)

    # Restarting

    async def _child_down(self, child: Child, reason: ExitReason) -> None:
        assert child.ref is not None
        self.actor_system.emit(ChildExited(child.ref, child.spec.id, self.actor_ref, reason))
        child.ref, child.status, child.last_exit = None, "stopped", reason
        if reason.abnormal:
            logger.info("child %r of %s ended: %s", child.spec.id, self, reason)
        restart = child.spec.restart
        if restart == "permanent" or (restart == "transient" and reason.abnormal):
            self._restart_or_give_up(child, reason)
            return
        if restart == "temporary":
            self._children.pop(child.spec.id, None)
        if child.spec.significant:
            self._maybe_shut_down(reason)

    def _maybe_shut_down(self, reason: ExitReason) -> None:
        others = any(other.spec.significant and other.status != "stopped" for other in self._children.values())
        if self._auto_shutdown == "any_significant" or (self._auto_shutdown == "all_significant" and not others):
            raise Shutdown(reason.exception)

    def _restart_or_give_up(self, child: Child, reason: ExitReason) -> None:
        now = monotonic()
        if self._window.exceeded(now):
            logger.warning("%s gives up: too many restarts of child %r (%s)", self, child.spec.id, reason)
            self.actor_system.emit(GaveUp(self.actor_ref, child.spec.id, reason))
            raise Shutdown(reason.exception or TooManyRestarts(str(reason)))
        child.status = "restarting"
        due = _RestartDue(child, child.generation)
        if self._backoff is None:
            # By way of the inbox: what waits there, e.g. the wish to stop, is not kept waiting by a restart storm.
            self.actor_ref.tell(due)
            return
        if child.started_at and now - child.started_at >= self._backoff.reset_after:
            child.attempt = 0
        child.attempt += 1
        delay = self._backoff.delay(child.attempt)
        self.actor_system.emit(RestartScheduled(self.actor_ref, child.spec.id, self.actor_ref, child.attempt, delay))
        assert self._tasks is not None
        self._tasks.start_soon(self._later, delay, due)

    async def _later(self, delay: float, message: object) -> None:
        await anyio.sleep(delay)
        if self.actor_ref.is_alive():
            self.actor_ref.tell(message)

    async def _restart(self, child: Child) -> None:
        """Start the child again, and by the strategy its siblings. Loops only through `_restart_or_give_up`."""
        siblings = list(self._children.values())
        if self._strategy == "one_for_one":
            group = [child]
        elif self._strategy == "one_for_all":
            group = siblings
        else:
            group = siblings[siblings.index(child) :]
        if len(group) > 1:
            await self._stop_children([one for one in group if one is not child])
        failed: tuple[Child, Exception] | None = None
        for one in group:
            # A temporary sibling was forgotten when it was stopped.
            if self._children.get(one.spec.id) is not one:
                continue
            if failed is not None:
                # Started together with the one that failed, when that is tried again.
                one.status = "stopped"
                continue
            try:
                await self._start(one, again=True)
            except Shutdown:
                raise
            except Exception as error:  # noqa: BLE001 (it counts as a restart, and is the exit reason)
                failed = (one, error)
                one.ref, one.status, one.last_exit = None, "stopped", reason_of(error)
        if failed is not None:
            self._restart_or_give_up(failed[0], reason_of(failed[1]))
