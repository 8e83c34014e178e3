"""Everything goes wrong at random for a while: each call still ends in time, and nothing is left behind."""

from __future__ import annotations

import gc
import os
import random
import signal
import socket
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress

import anyio
import anyio.to_thread
import psutil
import pytest

from conduit_actors import Hub, Limits, Policy, RestartPolicy, Server
from conduit_actors.connection import Connection
from conduit_actors.errors import ConduitError
from servers import HttpServer, http_server, stdio_server

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

SECONDS = 20
CALLERS = 20
CALL_TIMEOUT = 3.0
GRACE = 5.0
"""Seconds over a call's deadline that a loaded machine may take to say so. A lost call would take for ever."""

OPTIONS = {
    "health_interval": 0.5,
    "connect_timeout": 5.0,
    "restart": RestartPolicy(max_restarts=1_000, maximum=0.5, probe_interval=0.5),
}


class Farm:
    """Three programs and two HTTP servers."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._ports = {}
        self._running: dict[str, HttpServer] = {}
        for name in ("http", "sse"):
            with socket.socket() as unused:
                unused.bind(("127.0.0.1", 0))
                self._ports[name] = unused.getsockname()[1]
            self._start(name)

    def _start(self, name: str) -> None:
        flags = ("sse",) if name == "sse" else ()
        self._running[name] = self._stack.enter_context(http_server(f"port={self._ports[name]}", *flags))

    @property
    def servers(self) -> list[Server]:
        return [
            stdio_server(id="plain", shutdown_grace=0.2, **OPTIONS),
            stdio_server("banner", "ignore-sigterm", id="noisy", shutdown_grace=0.2, **OPTIONS),
            stdio_server("slow-start=0.5", id="slow", shutdown_grace=0.2, **OPTIONS),
            *(http.server(name, **OPTIONS) for name, http in self._running.items()),
        ]

    def restart(self, name: str) -> None:
        self._running[name].kill()
        self._start(name)

    def forget(self, name: str) -> None:
        with suppress(OSError):
            self._running[name].admin("forget")

    def close(self) -> None:
        self._stack.close()


def process_of(hub: Hub, dice: random.Random) -> int | None:
    return hub.status()[dice.choice(["plain", "noisy", "slow"])].pid


def signal_process(hub: Hub, dice: random.Random, number: int) -> None:
    pid = process_of(hub, dice)
    if pid is not None:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


async def chaos(hub: Hub, farm: Farm, dice: random.Random) -> None:
    deeds: list[Callable[[], None]] = [
        lambda: signal_process(hub, dice, signal.SIGKILL),
        lambda: signal_process(hub, dice, signal.SIGSTOP),
        lambda: farm.restart(dice.choice(["http", "sse"])),
        lambda: farm.forget(dice.choice(["http", "sse"])),
    ]
    while True:
        await anyio.to_thread.run_sync(dice.choice(deeds))
        await anyio.sleep(dice.uniform(0.1, 1))


async def call_on_and_on(hub: Hub, dice: random.Random, outcomes: Counter[str]) -> None:
    while True:
        server = dice.choice(["plain", "noisy", "slow", "http", "sse"])
        tool, arguments = dice.choice(
            [
                ("echo", {"text": "hi"}),
                ("wait", {"seconds": dice.uniform(0, 1)}),
                ("wait", {"seconds": 3_600}),
                ("big", {"size": 200_000}),
                ("fail", {}),
                ("die", {}),
            ]
        )
        with anyio.fail_after(CALL_TIMEOUT + GRACE):
            try:
                await hub.call_tool(f"{server}__{tool}", arguments, call_timeout=CALL_TIMEOUT)
                outcomes["ok"] += 1
            except ConduitError as error:
                outcomes[error.code] += 1


def connections() -> int:
    gc.collect()
    return sum(isinstance(thing, Connection) for thing in gc.get_objects())


@pytest.mark.timeout(SECONDS + 90)
async def test_chaos(anyio_backend_name: str) -> None:
    process = psutil.Process()
    children, descriptors = len(process.children(recursive=True)), process.num_fds()
    dice = random.Random(7)
    outcomes: Counter[str] = Counter()
    farm = Farm()
    try:
        limits = Limits(ready_timeout=1.0)
        async with Hub("chaos", servers=farm.servers, policy=Policy(allow=["*"]), limits=limits) as hub:
            await hub.wait_ready(timeout=20)
            with anyio.move_on_after(SECONDS):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(chaos, hub, farm, dice)
                    for _ in range(CALLERS):
                        tasks.start_soon(call_on_and_on, hub, dice, outcomes)
            assert len(process.children(recursive=True)) - children <= 3 + 2
            for name in ("http", "sse"):
                await anyio.to_thread.run_sync(farm.restart, name)
            with anyio.fail_after(60):
                for server in farm.servers:  # all come back
                    await hub.restart_server(server.id)
                    while True:
                        with suppress(ConduitError):
                            await hub.call_tool(f"{server.id}__echo", {"text": "back"})
                            break
            restarts = sum(status.restarts for status in hub.status().values())
    finally:
        farm.close()
    assert len(process.children(recursive=True)) == children
    assert process.num_fds() <= descriptors + 5  # the event loop's own
    assert connections() <= len(farm.servers)
    assert outcomes["ok"] > 0
    assert {"ok", "outcome_unknown"} <= set(outcomes) <= {
        "ok", "timeout", "outcome_unknown", "server_unavailable", "protocol_error", "unknown_tool",
    }, outcomes  # fmt: skip
    assert restarts > 0
