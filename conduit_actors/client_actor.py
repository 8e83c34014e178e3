"""`ClientActor`: owns one MCP session for its whole life, in its own task.

It opens the connection in its lifespan, tells the hub's actor, and then only waits. When the connection ends, however
it ends, the actor crashes with the cause; whether and when it is started again is its supervisor's business.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from conduit_actors.connection import Connection, open_connection
from conduit_actors.errors import ServerUnavailable
from conduit_actors.table import Slot, SlotKey
from conduit_supervision import Shutdown, TaskActor, TaskActorRef
from conduit_telemetry.metrics import record_session


@dataclass(frozen=True, slots=True)
class Connecting:
    """A new incarnation of a slot's client begins to connect."""

    key: SlotKey
    client: TaskActorRef[Any]


@dataclass(frozen=True, slots=True)
class Connected:
    """The handshake and the first tool list are done."""

    key: SlotKey
    client: TaskActorRef[Any]
    connection: Connection


@dataclass(frozen=True, slots=True)
class ToolsChanged:
    """The server's tool list was read again and differs."""

    key: SlotKey
    client: TaskActorRef[Any]


@dataclass(frozen=True, slots=True)
class _Lost:
    """The connection has ended."""


class ClientActor(TaskActor):
    """Holds one connection. Crashes with `ServerUnavailable` when it ends.

    Args:
        slot: the row of the server table that this client serves; it is only read here.
        hub: the hub's actor, which hears of each step.
    """

    # Its clean-up ends a process, in the worst case by force, and is bounded by the server's own grace.
    zombie_after = 10.0

    def __init__(self, slot: Slot, hub: TaskActorRef[Any]) -> None:
        super().__init__()
        self._slot = slot
        self._hub = hub
        self._connection: Connection | None = None

    @asynccontextmanager
    async def lifespan(self) -> AsyncGenerator[None, None]:
        # Connecting may take its whole time-out: the supervisor does not wait for it, and a failure is a crash.
        self.init_ack()
        self._hub.tell(Connecting(self._slot.key, self.actor_ref))
        try:
            async with open_connection(
                self._slot.server,
                principal=self._slot.principal,
                on_tools_changed=self._tools_changed,
                on_closed=self._closed,
            ) as connection:
                self._connection = connection
                connected = time.monotonic()
                self._hub.tell(Connected(self._slot.key, self.actor_ref, connection))
                try:
                    yield
                finally:
                    error = None if connection.failure is None else "connection_closed"
                    record_session(time.monotonic() - connected, connection.span_attributes, error)
        except ServerUnavailable as error:
            if self._connection is None and self._slot.probing:
                # A parked server's probe found it still down: no crash, and no restart before the next probe.
                raise Shutdown(error) from error
            raise

    def _closed(self) -> None:
        if self.actor_ref.is_alive():
            self.actor_ref.tell(_Lost())

    def _tools_changed(self) -> None:
        if self._hub.is_alive():
            self._hub.tell(ToolsChanged(self._slot.key, self.actor_ref))

    def on_receive(self, message: object) -> None:
        if isinstance(message, _Lost):
            assert self._connection is not None
            raise self._connection.failure or ServerUnavailable("the connection ended", server_id=self._slot.server.id)
