"""Servers that others wrote, from PyPI and npm."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from conduit_actors import Server, adapters
from support import FAST, alive, npm_server, open_hub

pytestmark = pytest.mark.anyio


def python_server(name: str) -> str:
    return str(Path(sys.executable).parent / name)


async def test_mcp_server_time() -> None:
    server = Server("time", command=python_server("mcp-server-time"), args=["--local-timezone", "UTC"])
    async with open_hub(server) as hub:
        assert hub.status()["time"].state == "ready", hub.status()["time"].last_error
        result = await hub.call_tool("time__get_current_time", {"timezone": "Europe/Stockholm"})
        assert "Europe/Stockholm" in result.text
        bad = await hub.call_tool("time__get_current_time", {"timezone": "Nowhere/Land"})
        assert bad.is_error


async def test_mcp_server_git_over_four_providers(tmp_path: Path) -> None:
    git = ["git", "-C", str(tmp_path), "-c", "user.name=t", "-c", "user.email=t@example.com"]
    subprocess.run([*git[:3], "init", "-q"], check=True)
    (tmp_path / "a.txt").write_text("hello")
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-qm", "First commit"], check=True)
    server = Server("git", command=python_server("mcp-server-git"), args=["--repository", str(tmp_path)])
    async with open_hub(server) as hub:
        assert hub.status()["git"].state == "ready", hub.status()["git"].last_error
        result = await hub.call_tool("git__git_log", {"repo_path": str(tmp_path)})
        assert "First commit" in result.text
        for provider, api in [("anthropic", None), ("openai", "chat"), ("openai", "responses"), ("gemini", None)]:
            listing = await adapters.tools(hub, provider, api=api)  # pyright: ignore
            assert len(listing.tools) == len(listing.toolset) > 5


@pytest.mark.npm
async def test_server_everything_over_stdio() -> None:
    server = Server("every", command=npm_server("mcp-server-everything"), args=["stdio"], restart=FAST)
    async with open_hub(server) as hub:
        status = hub.status()["every"]
        assert status.state == "ready", status.last_error
        assert (await hub.call_tool("every__echo", {"message": "hi"})).text == "Echo: hi"
        image = await hub.call_tool("every__get-tiny-image")
        assert any(block["type"] == "image" for block in image.content)
        structured = await hub.call_tool("every__get-structured-content", {"location": "New York"})
        assert structured.structured["temperature"]
        steps: list[float] = []
        result = await hub.call_tool(
            "every__trigger-long-running-operation",
            {"duration": 1, "steps": 4},
            on_progress=lambda progress, total, message: steps.append(progress),
        )
        assert "completed" in result.text
        assert steps
        assert status.pid is not None
        os.kill(status.pid, signal.SIGKILL)
        with anyio.fail_after(30):
            while hub.status()["every"].restarts == 0 or hub.status()["every"].state != "ready":
                await anyio.sleep(0.02)
        assert (await hub.call_tool("every__echo", {"message": "again"})).text == "Echo: again"
        pid = hub.status()["every"].pid
    assert not alive(pid or 0)


@pytest.mark.npm
async def test_server_filesystem(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("remember the milk")
    server = Server("files", command=npm_server("mcp-server-filesystem"), args=[str(tmp_path.resolve())])
    async with open_hub(server) as hub:
        assert hub.status()["files"].state == "ready", hub.status()["files"].last_error
        result = await hub.call_tool("files__read_text_file", {"path": str((tmp_path / "note.txt").resolve())})
        assert "remember the milk" in result.text
        listing = await adapters.tools(hub, "openai", api="responses")
        assert {tool["name"] for tool in listing.tools} == set(listing.toolset.names)


@pytest.mark.npm
async def test_server_everything_over_streamable_http() -> None:
    import socket

    command = npm_server("mcp-server-everything")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [command, "streamableHttp"],
        env={**os.environ, "PORT": str(port)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        server = Server("every", url=f"http://127.0.0.1:{port}/mcp", restart=FAST)
        async with open_hub(server) as hub:
            with anyio.fail_after(30):
                while hub.status()["every"].state != "ready":
                    await anyio.sleep(0.02)
            assert (await hub.call_tool("every__echo", {"message": "hi"})).text == "Echo: hi"
    finally:
        process.kill()
        process.wait(timeout=10)
