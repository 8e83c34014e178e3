"""`ActorSystem.tree`: the whole tree as plain data, and as a drawing."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from conduit_supervision.actor import TaskActor
from conduit_supervision.ref import TaskActorRef

if TYPE_CHECKING:
    from conduit_supervision.system import ActorSystem


@dataclass(frozen=True, slots=True)
class Node:
    """One actor, or a child that is not running.

    Attributes:
        id: the child id, the registered name, or the actor's URN.
        kind: the class.
        state: running, starting, stopping, restarting, stopped or zombie.
        uptime: seconds.
        current: the type of the message in hand.
    """

    id: str
    kind: str
    state: str
    restarts: int = 0
    inbox: int = 0
    current: str | None = None
    uptime: float = 0.0
    last_exit: str | None = None
    children: tuple[Node, ...] = field(default=())

    def __str__(self) -> str:
        return "\n".join(_lines(self))

    def walk(self) -> Iterator[Node]:
        """This node and all below it."""
        yield self
        for child in self.children:
            yield from child.walk()


def describe(system: ActorSystem) -> Node:
    """The tree of a system."""
    names = {ref: name for name, ref in list(system._names.items())}
    actors = [actor for ref in system.actors() if (actor := ref.actor()) is not None]
    roots = [actor for actor in actors if actor.supervisor is None]
    zombies = [Node(str(ref), ref.actor_class.__name__, "zombie") for ref in system.zombies()]
    children = tuple(_describe(actor, names.get(actor.actor_ref), names) for actor in roots)
    return Node("system", "ActorSystem", "running", children=(*children, *zombies))


def _describe(
    actor: TaskActor, name: str | None, names: dict[TaskActorRef[Any], str], restarts: int = 0, last: str | None = None
) -> Node:
    current = actor._actor_current
    state = "running" if actor._actor_started.done() else "starting"
    if actor.actor_stopped.is_set():
        state = "stopping"
    return Node(
        id=name or actor.actor_urn,
        kind=type(actor).__name__,
        state=state,
        restarts=restarts,
        inbox=len(actor._actor_inbox),
        current=None if current is None else type(current.message).__name__,
        uptime=time.monotonic() - actor._actor_born,
        last_exit=last,
        children=tuple(_children(actor, names)),
    )


def _children(actor: TaskActor, names: dict[TaskActorRef[Any], str]) -> Iterator[Node]:
    from conduit_supervision.dynamic import DynamicSupervisor
    from conduit_supervision.supervisor import Supervisor

    if not isinstance(actor, Supervisor):
        return
    for child in actor.children():
        last = None if child.last_exit is None else str(child.last_exit)
        running = child.ref.actor() if isinstance(child.ref, TaskActorRef) else None
        if running is not None:
            yield _describe(running, str(child.spec.id), names, child.restarts, last)
        else:
            state = child.status if child.ref is None else "running"
            yield Node(str(child.spec.id), child.spec.actor_class.__name__, state, child.restarts, last_exit=last)
    if isinstance(actor, DynamicSupervisor):
        for ref in actor.workers:
            worker = ref.actor()
            if worker is not None:
                yield _describe(worker, None, names)


def _lines(node: Node) -> Iterator[str]:
    facts = [node.kind, node.state]
    if node.restarts:
        facts.append(f"{node.restarts} restarts")
    if node.inbox:
        facts.append(f"inbox {node.inbox}")
    if node.current:
        facts.append(f"handles {node.current}")
    if node.uptime:
        facts.append(f"up {node.uptime:.1f} s")
    if node.last_exit:
        facts.append(f"last exit {node.last_exit}")
    yield f"{node.id}  {', '.join(facts)}"
    for index, child in enumerate(node.children):
        last = index == len(node.children) - 1
        for row, line in enumerate(_lines(child)):
            head = ("└─ " if last else "├─ ") if row == 0 else ("   " if last else "│  ")
            yield head + line
