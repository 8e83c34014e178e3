"""Calls over an open connection: answers, errors, time, cancellation."""

from __future__ import annotations

import ast
from typing import Any

import anyio
import pytest
from mcp.server.mcpserver import MCPServer

from conduit_actors.connection import Connection, open_connection
from conduit_actors.errors import OutcomeUnknown, ProtocolError, ServerUnavailable, Timeout
from conduit_actors.server import Server
from servers import stdio_server

pytestmark = pytest.mark.anyio


async def text(connection: Connection, tool: str, **arguments: Any) -> str:
    result = await connection.call_tool(tool, arguments, timeout=20)
    return result["content"][0]["text"]


async def seen(connection: Connection, method: str) -> list[dict[str, Any]]:
    return ast.literal_eval(await text(connection, "seen", method=method))


async def test_concurrent_calls_get_their_own_answers() -> None:
    answers: dict[int, str] = {}

    async def call(connection: Connection, number: int) -> None:
        answers[number] = await text(connection, "echo", text=str(number))

    with anyio.fail_after(40):
        async with open_connection(stdio_server()) as connection:
            async with anyio.create_task_group() as tasks:
                for number in range(200):
                    tasks.start_soon(call, connection, number)
    assert answers == {number: str(number) for number in range(200)}


async def test_slow_calls_run_beside_each_other() -> None:
    """Sixteen calls that wait for each other's end would never end one after another."""
    with anyio.fail_after(30):
        async with open_connection(stdio_server()) as connection:
            async with anyio.create_task_group() as tasks:
                for _ in range(16):
                    tasks.start_soon(lambda: connection.call_tool("wait", {"seconds": 3_600}, timeout=3_600))
                assert await text(connection, "echo", text="not held up") == "not held up"
                tasks.cancel_scope.cancel()


async def test_an_error_of_the_server_is_not_taken_for_a_lost_connection() -> None:
    with anyio.fail_after(20):
        async with open_connection(stdio_server()) as connection:
            with pytest.raises(ProtocolError, match="the disk is full") as caught:
                await connection.call_tool("fail", {"code": -32_000, "text": "the disk is full"}, timeout=5)
            assert caught.value.rpc_code == -32_000
            assert await text(connection, "echo", text="fine") == "fine"


async def test_malformed_content_blocks_cost_only_themselves() -> None:
    with anyio.fail_after(20):
        async with open_connection(stdio_server()) as connection:
            result = await connection.call_tool("broken_blocks", {}, timeout=5)
    assert result["content"][0] == {"type": "text", "text": "good"}
    assert [block["type"] for block in result["content"]] == ["text"] * 4
    assert "hologram" in result["content"][2]["text"]


async def test_a_time_out_cancels_on_the_server_and_the_late_answer_is_ignored() -> None:
    with anyio.fail_after(20):
        async with open_connection(stdio_server()) as connection:
            with pytest.raises(Timeout, match=r"no answer within 0\.2 s"):
                await connection.call_tool("wait", {"seconds": 0.5}, timeout=0.2)
            assert await text(connection, "echo", text="own answer") == "own answer"
            # The late answer comes while this call waits for its own.
            assert await text(connection, "wait", seconds=0.6) == "late"
            assert len(await seen(connection, "notifications/cancelled")) == 1


async def test_a_cancelled_caller_is_released_and_the_server_told() -> None:
    with anyio.fail_after(20):
        async with open_connection(stdio_server()) as connection:
            sent = anyio.Event()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(
                    lambda: connection.call_tool("wait", {"seconds": 3_600}, timeout=3_600, on_sent=sent.set)
                )
                await sent.wait()
                tasks.cancel_scope.cancel()
            assert len(await seen(connection, "notifications/cancelled")) == 1
            assert not connection.closed.is_set()


async def test_progress_starts_the_time_out_again() -> None:
    reports: list[float] = []
    with anyio.fail_after(30):
        async with open_connection(stdio_server()) as connection:
            result = await connection.call_tool(
                "progress",
                {"steps": 5, "pause": 0.5},
                timeout=1.5,
                on_progress=lambda progress, total, message: reports.append(progress),
            )
    assert result["content"][0]["text"] == "done"
    assert sorted(reports) == [1.0, 2.0, 3.0, 4.0, 5.0]


async def test_a_progress_token_is_sent_though_nobody_listens() -> None:
    with anyio.fail_after(20):
        async with open_connection(stdio_server()) as connection:
            calls = await seen(connection, "tools/call")
    assert calls[0]["params"]["_meta"]["progressToken"] == calls[0]["id"]


async def test_a_failing_progress_callback_costs_nothing() -> None:
    def fail(*report: Any) -> None:
        raise RuntimeError("mine")

    with anyio.fail_after(20):
        async with open_connection(stdio_server()) as connection:
            arguments = {"steps": 2, "pause": 0}
            result = await connection.call_tool("progress", arguments, timeout=5, on_progress=fail)
    assert result["content"][0]["text"] == "done"


async def test_meta_and_nulls_arrive_as_they_are() -> None:
    with anyio.fail_after(20):
        async with open_connection(stdio_server()) as connection:
            await connection.call_tool("echo", {"text": None, "deep": {"null": None}}, timeout=5, meta={"x/y": 1})
            params = (await seen(connection, "tools/call"))[0]["params"]
    assert params["arguments"] == {"text": None, "deep": {"null": None}}
    assert params["_meta"]["x/y"] == 1


async def test_a_closed_connection_refuses_at_once() -> None:
    with anyio.fail_after(20):
        async with open_connection(stdio_server()) as connection:
            pass
        with pytest.raises(ServerUnavailable):
            await connection.call_tool("echo", {}, timeout=5)


async def test_text_that_is_not_utf_8_is_delivered_damaged() -> None:
    with anyio.fail_after(20):
        async with open_connection(stdio_server("cp1252")) as connection:
            assert await text(connection, "echo", text="it@s") == "it\ufffds"


async def test_banners_on_stdout_are_skipped() -> None:
    with anyio.fail_after(20):
        async with open_connection(stdio_server("banner")) as connection:
            assert await text(connection, "echo", text="hi") == "hi"


async def test_large_arguments_and_answers() -> None:
    size = 3_000_000
    with anyio.fail_after(40):
        async with open_connection(stdio_server()) as connection:
            assert await text(connection, "echo", text="x" * size) == "x" * size


async def test_an_oversized_message_ends_the_connection() -> None:
    with anyio.fail_after(20):
        async with open_connection(stdio_server(max_message_bytes=50_000)) as connection:
            with pytest.raises(OutcomeUnknown):
                await connection.call_tool("big", {"size": 60_000}, timeout=10)
            await connection.closed.wait()
            assert "more than 50000 bytes" in str(connection.failure)


async def test_in_process_server_runs_and_its_calls_end_with_the_connection() -> None:
    mcp = MCPServer("inside")
    started = anyio.Event()
    outcome: list[Exception] = []

    @mcp.tool()
    async def add(a: int, b: int) -> int:
        return a + b

    @mcp.tool()
    async def sleep() -> str:
        started.set()
        await anyio.sleep_forever()
        return ""

    async def call(connection: Connection) -> None:
        try:
            await connection.call_tool("sleep", {}, timeout=3_600)
        except OutcomeUnknown as error:
            outcome.append(error)

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            async with open_connection(Server("in", transport=mcp)) as connection:
                result = await connection.call_tool("add", {"a": 1, "b": 2}, timeout=5)
                assert result["structuredContent"] == {"result": 3}
                tasks.start_soon(call, connection)
                await started.wait()
    assert len(outcome) == 1
