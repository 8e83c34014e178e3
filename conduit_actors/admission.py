"""`Admission`: how many calls run at once, and who is next."""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import TypeVar

import anyio

from conduit_actors.errors import Overloaded
from conduit_actors.limits import Limits

Key = TypeVar("Key", bound=str | None)


@dataclass(slots=True, eq=False)
class _Waiter:
    server_id: str
    principal: str | None
    admitted: anyio.Event = field(default_factory=anyio.Event)
    inside: bool = False


class Admission:
    """Bounds on running calls: in all, per server and per principal; and on waiting ones.

    Places are given round-robin between principals, and within a principal between servers, in order of arrival. So a
    principal with a thousand waiting calls delays another's first by one place at most, and a server that is full
    does not hold up calls to others.

    Invariant: whenever a waiter could be admitted it has been; so a newcomer that fits may go ahead of all who wait.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._running = 0
        # Plain dicts: a Counter answers a missing key through a Python call, three times per call here.
        self._of_server: dict[str, int] = {}
        self._of_principal: dict[str | None, int] = {}
        self._queues: OrderedDict[str | None, OrderedDict[str, deque[_Waiter]]] = OrderedDict()
        self._waiting = 0

    @property
    def running(self) -> int:
        """Calls that have a place."""
        return self._running

    @property
    def waiting(self) -> int:
        """Calls that wait for one."""
        return self._waiting

    async def enter(self, server_id: str, principal: str | None) -> None:
        """Take a place, waiting for it if need be. Give it back with `leave`.

        Raises:
            Overloaded: the queue is full.
        """
        if self._fits(server_id, principal):
            self._take(server_id, principal)
            return
        if self._waiting >= self._limits.queue:
            raise Overloaded(f"too many calls are waiting ({self._waiting}); try again later", server_id=server_id)
        waiter = _Waiter(server_id, principal)
        self._queues.setdefault(principal, OrderedDict()).setdefault(server_id, deque()).append(waiter)
        self._waiting += 1
        try:
            await waiter.admitted.wait()
        except BaseException:
            if waiter.inside:
                self.leave(server_id, principal)
            else:
                self._drop(waiter)
            raise

    def leave(self, server_id: str, principal: str | None) -> None:
        """Give a place back; whoever can use it gets it."""
        self._running -= 1
        _decrease(self._of_server, server_id)
        _decrease(self._of_principal, principal)
        if self._waiting:
            self._admit()

    def _fits(self, server_id: str, principal: str | None) -> bool:
        limits = self._limits
        return (
            (limits.max_concurrency is None or self._running < limits.max_concurrency)
            and (limits.per_server is None or self._of_server.get(server_id, 0) < limits.per_server)
            and (limits.per_principal is None or self._of_principal.get(principal, 0) < limits.per_principal)
        )

    def _take(self, server_id: str, principal: str | None) -> None:
        self._running += 1
        self._of_server[server_id] = self._of_server.get(server_id, 0) + 1
        self._of_principal[principal] = self._of_principal.get(principal, 0) + 1

    def _admit(self) -> None:
        """Give places to waiters until none of them fits."""
        while (waiter := self._next()) is not None:
            self._waiting -= 1
            self._take(waiter.server_id, waiter.principal)
            waiter.inside = True
            waiter.admitted.set()

    def _next(self) -> _Waiter | None:
        for principal, servers in self._queues.items():
            for server_id, queue in servers.items():
                if not self._fits(server_id, principal):
                    continue
                waiter = queue.popleft()
                # Whoever was served goes to the end of the line, principal and server alike.
                servers.move_to_end(server_id)
                self._queues.move_to_end(principal)
                self._forget_if_empty(principal, server_id)
                return waiter
        return None

    def _drop(self, waiter: _Waiter) -> None:
        self._waiting -= 1
        self._queues[waiter.principal][waiter.server_id].remove(waiter)
        self._forget_if_empty(waiter.principal, waiter.server_id)

    def _forget_if_empty(self, principal: str | None, server_id: str) -> None:
        servers = self._queues[principal]
        if not servers[server_id]:
            del servers[server_id]
        if not servers:
            del self._queues[principal]


class Place:
    """One call's place. It can be given up for a while, e.g. while a person is asked, and is left once at the end."""

    __slots__ = ("_admission", "_held", "_principal", "_server_id")

    def __init__(self, admission: Admission, server_id: str, principal: str | None) -> None:
        self._admission = admission
        self._server_id = server_id
        self._principal = principal
        self._held = False

    async def enter(self) -> None:
        """Take the place. See `Admission.enter`."""
        await self._admission.enter(self._server_id, self._principal)
        self._held = True

    def leave(self) -> None:
        """Give it back; a second time does nothing."""
        if self._held:
            self._held = False
            self._admission.leave(self._server_id, self._principal)


def _decrease(counts: dict[Key, int], key: Key) -> None:
    left = counts[key] - 1
    if left:
        counts[key] = left
    else:
        del counts[key]
