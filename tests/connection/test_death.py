"""The ends of connections: each is noticed, says why, and ends the calls in flight."""

from __future__ import annotations

import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from conduit_actors.connection import Connection, open_connection
from conduit_actors.errors import ConduitError, OutcomeUnknown, ServerUnavailable
from servers import http_server, stdio_server

pytestmark = pytest.mark.anyio


async def call_during(connection: Connection, deed: Callable[[], Awaitable[Any]]) -> ConduitError:
    """The error of a call that is in flight when something happens."""
    failure: list[ConduitError] = []
    sent = anyio.Event()

    async def call() -> None:
        with pytest.raises(ConduitError) as caught:
            await connection.call_tool("wait", {"seconds": 3_600}, timeout=3_600, on_sent=sent.set)
        failure.append(caught.value)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(call)
        await sent.wait()
        await deed()
    return failure[0]


async def test_a_tool_that_ends_the_process() -> None:
    closed = anyio.Event()
    with anyio.fail_after(20):
        async with open_connection(stdio_server(), on_closed=closed.set) as connection:
            with pytest.raises(OutcomeUnknown):
                await connection.call_tool("die", {"status": 9}, timeout=3_600)
            await closed.wait()
            assert connection.closed.is_set()
            assert "exit status 9" in str(connection.failure)
            with pytest.raises(ServerUnavailable):
                await connection.call_tool("echo", {}, timeout=5)


async def test_a_killed_process_ends_all_calls_in_flight() -> None:
    with anyio.fail_after(20):
        async with open_connection(stdio_server()) as connection:

            async def kill() -> None:
                assert connection.pid is not None
                os.kill(connection.pid, signal.SIGKILL)

            assert isinstance(await call_during(connection, kill), OutcomeUnknown)
            await connection.closed.wait()
            assert "signal 9" in str(connection.failure)


async def test_a_grandchild_that_holds_the_pipes_does_not_hide_the_death(tmp_path: Path) -> None:
    file = tmp_path / "grandchild"
    with anyio.fail_after(20):
        async with open_connection(stdio_server(f"grandchild={file}")) as connection:

            async def kill() -> None:
                assert connection.pid is not None
                os.kill(connection.pid, signal.SIGKILL)

            assert isinstance(await call_during(connection, kill), OutcomeUnknown)
            await connection.closed.wait()


async def test_a_stopped_process_is_found_by_the_health_check() -> None:
    with anyio.fail_after(30):
        async with open_connection(stdio_server(health_interval=0.3)) as connection:
            assert connection.pid is not None
            os.kill(connection.pid, signal.SIGSTOP)
            await connection.closed.wait()
            assert "no sign of life" in str(connection.failure)


async def test_the_health_check_leaves_a_healthy_server_alone() -> None:
    with anyio.fail_after(30):
        async with open_connection(stdio_server("say-pings", health_interval=0.1)) as connection:
            # A busy server is not asked, however long it is silent.
            await connection.call_tool("wait", {"seconds": 1}, timeout=10)
            assert "pinged" not in connection.stderr_tail
            while connection.stderr_tail.count("pinged") < 3:
                await anyio.sleep(0.02)
            assert not connection.closed.is_set()


async def test_a_program_that_stops_reading_blocks_nobody_for_ever() -> None:
    """The pipe is full: writers wait, and the end of the connection wakes them. Nothing went out whole."""
    errors: list[ConduitError] = []

    async def call(connection: Connection) -> None:
        with pytest.raises(ConduitError) as caught:
            await connection.call_tool("echo", {"text": "x" * 1_000_000}, timeout=3_600)
        errors.append(caught.value)

    with anyio.fail_after(30):
        async with open_connection(stdio_server("deaf")) as connection:
            async with anyio.create_task_group() as tasks:
                for _ in range(3):
                    tasks.start_soon(call, connection)
                await anyio.wait_all_tasks_blocked()
                assert connection.pid is not None
                os.kill(connection.pid, signal.SIGKILL)
    assert [type(error) for error in errors] == [ServerUnavailable] * 3


async def test_a_caller_leaves_a_program_that_stopped_reading_at_once() -> None:
    with anyio.fail_after(30):
        async with open_connection(stdio_server("deaf")) as connection:
            # Without a bound on the notification's write this would take the SDK's five seconds, each.
            with anyio.fail_after(4):
                for _ in range(2):
                    with anyio.move_on_after(0.1) as scope:
                        await connection.call_tool("echo", {"text": "x" * 1_000_000}, timeout=3_600)
                    assert scope.cancelled_caught


@pytest.mark.parametrize("flags", [(), ("sse",)])
async def test_an_http_server_that_dies_in_a_call(flags: tuple[str, ...]) -> None:
    with http_server(*flags) as http, anyio.fail_after(30):
        async with open_connection(http.server()) as connection:

            async def kill() -> None:
                await anyio.to_thread.run_sync(http.kill)

            assert isinstance(await call_during(connection, kill), OutcomeUnknown)
            await connection.closed.wait()
            assert "cannot be reached" in str(connection.failure)


async def test_an_http_server_that_dies_between_calls() -> None:
    with http_server() as http, anyio.fail_after(30):
        async with open_connection(http.server(health_interval=None)) as connection:
            await anyio.to_thread.run_sync(http.kill)
            with pytest.raises(ServerUnavailable):
                await connection.call_tool("echo", {}, timeout=5)
            await connection.closed.wait()


async def test_an_idle_http_connection_notices_the_death() -> None:
    with http_server() as http, anyio.fail_after(30):
        async with open_connection(http.server(health_interval=0.3)) as connection:
            await anyio.to_thread.run_sync(http.kill)
            await connection.closed.wait()
            assert "cannot be reached" in str(connection.failure)


@pytest.mark.parametrize("flags", [(), ("bad-session=400",)])
async def test_a_server_that_forgot_its_sessions(flags: tuple[str, ...]) -> None:
    with http_server(*flags) as http, anyio.fail_after(30):
        async with open_connection(http.server(health_interval=None)) as connection:
            await anyio.to_thread.run_sync(http.admin, "forget")
            with pytest.raises(ConduitError) as caught:
                await connection.call_tool("echo", {}, timeout=5)
            if not flags:
                assert isinstance(caught.value, ServerUnavailable)
            await connection.closed.wait()


async def test_a_stopped_http_server_is_found_by_the_health_check() -> None:
    with http_server() as http, anyio.fail_after(30):
        async with open_connection(http.server(health_interval=0.3)) as connection:
            os.kill(http.process.pid, signal.SIGSTOP)
            await connection.closed.wait()
            assert "no sign of life" in str(connection.failure)


async def test_one_failed_exchange_does_not_cost_the_others() -> None:
    """An answer of more than the limit costs its call; a call beside it goes on."""
    with http_server() as http, anyio.fail_after(30):
        async with open_connection(http.server(max_message_bytes=50_000)) as connection:
            answer: list[str] = []

            async def slow() -> None:
                result = await connection.call_tool("wait", {"seconds": 1}, timeout=20)
                answer.append(result["content"][0]["text"])

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(slow)
                with pytest.raises(ConduitError, match="more than 50000 bytes"):
                    await connection.call_tool("big", {"size": 60_000}, timeout=10)
            assert answer == ["late"]
