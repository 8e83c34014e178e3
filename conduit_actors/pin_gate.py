"""`PinGate`: what stands between a server's tool list and the hub's, where the server's tools are pinned."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from os import fspath
from typing import Any, TypeVar

import anyio
import anyio.to_thread

from conduit_actors.errors import ConfigurationError
from conduit_actors.pinning import OnChange, PinFinding, PinStore, fingerprint
from conduit_actors.server import Server
from conduit_telemetry import notice

Tools = Sequence[Mapping[str, Any]]
T = TypeVar("T")

_THREADS = 4


class PinGate:
    """The pin stores of a hub's servers. SQLite runs in a worker thread: a slow disk holds up no call."""

    def __init__(self) -> None:
        self._stores: dict[object, PinStore] = {}
        self._told: set[tuple[str, str, str]] = set()
        self._threads: anyio.CapacityLimiter | None = None

    async def check(self, server: Server, tools: Tools) -> tuple[PinFinding, ...]:
        """What differs from the approved definitions. If that cannot be told, every tool is held back."""
        store = self._store(server)
        if store is None or not tools:
            return ()
        try:
            findings = await self._off_loop(store.check, server.id, tools)
        except sqlite3.Error as error:
            text = f"the pin store cannot be used ({type(error).__name__})"
            findings = [
                PinFinding(server.id, str(tool["name"]), "unknown", text, fingerprint(tool), held=True)
                for tool in tools
            ]
        for finding in findings:
            self._tell(finding)
        return tuple(findings)

    async def approve(self, server: Server, finding: PinFinding, tools: Tools) -> None:
        """Pin what the finding is about, if the server still has exactly that.

        Raises:
            ConfigurationError: the server's tools are not pinned, or the tool is gone or changed again since.
        """
        store = self._store(server)
        if store is None:
            raise ConfigurationError(f"the tools of {server.id!r} are not pinned: give the server pin=")
        for tool in tools:
            if tool["name"] == finding.tool and fingerprint(tool) == finding.fingerprint:
                await self._off_loop(store.approve, server.id, tool)
                return
        raise ConfigurationError(f"{server.id}/{finding.tool} is gone, or has changed again since; look at it again")

    async def _off_loop(self, method: Callable[..., T], *args: Any) -> T:
        # Not anyio's shared threads, which the host's own blocking code may use up.
        if self._threads is None:
            self._threads = anyio.CapacityLimiter(_THREADS)
        return await anyio.to_thread.run_sync(method, *args, limiter=self._threads)

    def _store(self, server: Server) -> PinStore | None:
        pin = server.pin
        if pin is None or isinstance(pin, PinStore):
            return pin
        # A mode alone keeps its pins in memory, as long as the hub lives; a path is opened once.
        on_change: OnChange = "warn" if pin == "warn" else "block"
        in_memory = pin in ("block", "warn")
        path = ":memory:" if in_memory else fspath(pin)
        key = (server.id, path) if in_memory else path
        if key not in self._stores:
            self._stores[key] = PinStore(path, on_change=on_change)
        return self._stores[key]

    def _tell(self, finding: PinFinding) -> None:
        key = (finding.server_id, finding.tool, finding.fingerprint)
        if key not in self._told:
            self._told.add(key)
            notice("pin_changed", server_id=finding.server_id, tool=finding.tool, reason=finding.reason)
