"""`Flag`: what Pykka wants of an actor's `threading.Event`, without the lock and the condition that nobody waits on."""

from __future__ import annotations


class Flag:
    """Set once, from any thread; asked from any thread. There is nothing to wait for: see `TaskActorRef.ended`."""

    __slots__ = ("_set",)

    def __init__(self) -> None:
        self._set = False

    def set(self) -> None:
        """Set it; a second time does nothing."""
        self._set = True

    def is_set(self) -> bool:
        """Whether it is set."""
        return self._set
