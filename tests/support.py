"""What several tests need."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from conduit_actors import Hub, Policy, RestartPolicy, Server

TESTS = Path(__file__).parent
KITCHEN = TESTS / "kitchen.py"
FAST = RestartPolicy(initial=0.01, maximum=0.05, jitter="none", probe_interval=0.2)
EVERYTHING = Policy(allow=["*"])


def stdio(server_id: str = "kitchen", **options: Any) -> Server:
    """The kitchen as a child process."""
    options.setdefault("restart", FAST)
    return Server(server_id, command=sys.executable, args=[str(KITCHEN), server_id], **options)


@asynccontextmanager
async def open_hub(*servers: Server, **options: Any) -> AsyncGenerator[Hub, None]:
    """A hub whose servers are ready, or parked."""
    options.setdefault("policy", EVERYTHING)
    async with Hub("test", servers=servers, **options) as hub:
        with anyio.fail_after(30):
            await hub.wait_ready()
        yield hub


async def until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    """Wait until something is so; for states of other processes, which send no event."""
    with anyio.fail_after(seconds):
        while not condition():
            await anyio.sleep(0.01)


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in ("Z", "X")


def children() -> list[int]:
    """The child processes of this one, zombies included."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == os.getpid():
                found.append(int(entry.name))
    return found


def npm_server(name: str) -> str:
    """The path of an MCP server from npm; the test is skipped, with the reason, where it is not installed."""
    found = shutil.which(name, path=str(TESTS / "npm" / "node_modules" / ".bin")) or shutil.which(name)
    if found is None or shutil.which("node") is None:
        pytest.skip(f"{name} is not installed: run `npm install --prefix tests/npm`")
    return found
