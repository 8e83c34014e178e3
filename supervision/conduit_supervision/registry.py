"""Makes Pykka's global registry cheap for many actors.

`pykka.ActorRegistry` keeps its refs in a list: removal is linear, and stopping ten thousand actors would take ten
thousand scans. Its class attribute is replaced by an ordered mapping with the few list operations that it uses.
This is a private seam of Pykka (4.x); a test pins it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast, overload

from pykka import ActorRef, ActorRegistry


class RefList:
    """An ordered set of actor refs that looks like the list that Pykka expects; all operations but slices are O(1)."""

    def __init__(self, refs: list[ActorRef[Any]]) -> None:
        self._refs: dict[ActorRef[Any], None] = dict.fromkeys(refs)

    def append(self, ref: ActorRef[Any]) -> None:
        self._refs[ref] = None

    def remove(self, ref: ActorRef[Any]) -> None:
        try:
            del self._refs[ref]
        except KeyError:
            raise ValueError("ref not in registry") from None

    def __contains__(self, ref: object) -> bool:
        return ref in self._refs

    def __iter__(self) -> Iterator[ActorRef[Any]]:
        return iter(self._refs)

    def __len__(self) -> int:
        return len(self._refs)

    @overload
    def __getitem__(self, index: int) -> ActorRef[Any]: ...
    @overload
    def __getitem__(self, index: slice) -> list[ActorRef[Any]]: ...
    def __getitem__(self, index: int | slice) -> ActorRef[Any] | list[ActorRef[Any]]:
        return list(self._refs)[index]


def install() -> None:
    """Replace the list, keeping what is in it. A second call does nothing."""
    registry = cast("Any", ActorRegistry)
    with registry._actor_refs_lock:
        if not isinstance(registry._actor_refs, RefList):
            registry._actor_refs = RefList(registry._actor_refs)
