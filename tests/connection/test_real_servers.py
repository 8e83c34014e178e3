"""Servers that others wrote: the SDK's over HTTP at both kinds of revision, and server-everything."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Generator
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import mcp_types as types
import pytest

from conduit_actors.connection import Connection, open_connection
from conduit_actors.errors import OutcomeUnknown
from conduit_actors.server import Server
from servers import HttpServer, http_server

pytestmark = pytest.mark.anyio

EVERYTHING = Path(__file__).parents[1] / "npm" / "node_modules" / ".bin" / "mcp-server-everything"
needs_npm = pytest.mark.skipif(
    not EVERYTHING.exists() or shutil.which("node") is None,
    reason="run: npm install --prefix tests/npm --ignore-scripts",
)


@pytest.fixture(scope="module")
def sdk() -> Generator[HttpServer]:
    with http_server(program="over_sdk.py") as http:
        yield http


async def text(connection: Connection, tool: str, **arguments: Any) -> str:
    return (await connection.call_tool(tool, arguments, timeout=20))["content"][0]["text"]


@pytest.mark.parametrize(("protocol", "revision"), [("auto", "2026-07-28"), ("legacy", "2025-11-25")])
async def test_the_sdk_over_http(sdk: HttpServer, protocol: str, revision: str) -> None:
    reports: list[float] = []
    with anyio.fail_after(40):
        async with open_connection(sdk.server(protocol=protocol)) as connection:
            assert connection.protocol_version == revision
            assert await text(connection, "echo", text="hi") == "hi"
            result = await connection.call_tool(
                "progress", {"steps": 3}, timeout=10, on_progress=lambda progress, *_: reports.append(progress)
            )
            assert result["content"][0]["text"] == "done"
            while len(reports) < 3:
                await anyio.sleep(0.01)

            before = int(await text(connection, "cancellations"))
            sent = anyio.Event()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(lambda: connection.call_tool("wait", {}, timeout=3_600, on_sent=sent.set))
                await sent.wait()
                # A request that was written may still be on its way to the tool.
                assert await text(connection, "echo", text="hi") == "hi"
                tasks.cancel_scope.cancel()
            while int(await text(connection, "cancellations")) == before:
                await anyio.sleep(0.02)


async def test_a_change_is_heard_of_over_http(sdk: HttpServer, anyio_backend_name: str) -> None:
    send, changes = anyio.create_memory_object_stream[None](100)
    with anyio.fail_after(40):
        opening = open_connection(sdk.server(), on_tools_changed=lambda: send.send_nowait(None))
        async with send, changes, opening as connection:
            for name in (f"first_{anyio_backend_name}", f"second_{anyio_backend_name}"):
                await connection.call_tool("grow", {"name": name}, timeout=10)
                await changes.receive()
                assert name in [tool["name"] for tool in connection.tools]


@pytest.mark.parametrize("protocol", ["auto", "legacy"])
async def test_the_sdk_dies_in_a_call(protocol: str) -> None:
    with http_server(program="over_sdk.py") as http, anyio.fail_after(40):
        async with open_connection(http.server(protocol=protocol, health_interval=None)) as connection:
            with pytest.raises(OutcomeUnknown):
                await connection.call_tool("die", {}, timeout=3_600)
            await connection.closed.wait()


async def test_a_stale_schema_of_headers_is_read_again_and_the_call_sent_once_more() -> None:
    with http_server(program="over_sdk.py") as http, anyio.fail_after(40):
        async with open_connection(http.server()) as connection:
            assert await text(connection, "echo", text="hi") == "hi"
            await connection.call_tool("switch", {}, timeout=10)
            assert await text(connection, "echo", text="still") == "still"
            echo = next(tool for tool in connection.tools if tool["name"] == "echo")
            assert echo["inputSchema"]["properties"]["text"]["x-mcp-header"] == "Text"


async def everything(connection: Connection) -> None:
    assert {"echo", "get-sum"} <= {tool["name"] for tool in connection.tools}
    assert connection.quarantined == ()
    assert "hi" in await text(connection, "echo", message="hi")
    image = await connection.call_tool("get-tiny-image", {}, timeout=20)
    assert "image" in [block["type"] for block in image["content"]]
    structured = await connection.call_tool("get-structured-content", {"location": "New York"}, timeout=20)
    assert structured["structuredContent"]
    reports: list[float] = []
    await connection.call_tool(
        "trigger-long-running-operation",
        {"duration": 2, "steps": 4},
        timeout=1.5,
        on_progress=lambda progress, *_: reports.append(progress),
    )
    assert len(reports) >= 3


@pytest.mark.npm
@needs_npm
async def test_server_everything_over_stdio() -> None:
    async def sample(context: Any, params: Any) -> types.CreateMessageResult:
        content = types.TextContent(type="text", text="sampled by the host")
        return types.CreateMessageResult(role="assistant", content=content, model="m")

    server = Server("e", command=str(EVERYTHING), args=["stdio"], sampling=sample, roots=["file:///data"])
    with anyio.fail_after(50):
        async with open_connection(server) as connection:
            await everything(connection)
            answer = await text(connection, "trigger-sampling-request", prompt="hi", maxTokens=5)
            assert "sampled by the host" in answer


@pytest.mark.npm
@needs_npm
async def test_server_everything_over_http_is_restarted() -> None:
    """A restarted server-everything answers its old sessions with 400: that must end the connection too."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]

    def start() -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [str(EVERYTHING), "streamableHttp"],
            env={"PORT": str(port), "PATH": "/usr/bin:/bin:" + str(Path(shutil.which("node") or "").parent)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        while process.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return process
        raise AssertionError("server-everything did not start")

    def stop(process: subprocess.Popen[bytes]) -> None:
        process.kill()
        process.wait()

    process = await anyio.to_thread.run_sync(start)
    try:
        with anyio.fail_after(50):
            server = Server("e", url=f"http://127.0.0.1:{port}/mcp", health_interval=0.5)
            async with open_connection(server) as connection:
                await everything(connection)
                await anyio.to_thread.run_sync(stop, process)
                process = await anyio.to_thread.run_sync(start)
                await connection.closed.wait()
            async with open_connection(server) as connection:
                assert "again" in await text(connection, "echo", message="again")
    finally:
        stop(process)
