"""What servers ask and tell, the ways of being reached, and the private places of the SDK that this relies on."""

from __future__ import annotations

import logging
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.server import Server as LowLevelServer
from mcp.shared import jsonrpc_dispatcher

from conduit_actors.connection import open_connection
from conduit_actors.errors import OutcomeUnknown, ProtocolError
from conduit_actors.server import Server
from servers import stdio_server

pytestmark = pytest.mark.anyio

FORM = {"message": "Which?", "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}}}
SAMPLE = {"messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}], "maxTokens": 5}


async def asked(server: Server, method: str, params: dict[str, Any]) -> str:
    """What a server got as the answer to a request of its own."""
    with anyio.fail_after(20):
        async with open_connection(server) as connection:
            result = await connection.call_tool("ask", {"method": method, "params": params}, timeout=10)
            return result["content"][0]["text"]


@pytest.mark.parametrize(
    ("method", "params"), [("elicitation/create", FORM), ("sampling/createMessage", SAMPLE), ("roots/list", {})]
)
async def test_a_request_nobody_serves_is_refused(method: str, params: dict[str, Any]) -> None:
    answer = await asked(stdio_server(), method, params)
    assert "'error'" in answer
    assert "not supported" in answer


async def test_an_unknown_request_is_refused() -> None:
    assert "-32601" in await asked(stdio_server(), "no/such", {})


async def test_elicitation_asks_the_host() -> None:
    async def answer(context: Any, params: Any) -> types.ElicitResult:
        assert params.message == "Which?"
        return types.ElicitResult(action="accept", content={"name": "Ada"})

    assert "Ada" in await asked(stdio_server(elicitation=answer), "elicitation/create", FORM)


async def test_sampling_asks_the_host_by_a_plain_function() -> None:
    def answer(context: Any, params: Any) -> types.CreateMessageResult:
        content = types.TextContent(type="text", text="sampled")
        return types.CreateMessageResult(role="assistant", content=content, model="m")

    assert "sampled" in await asked(stdio_server(sampling=answer), "sampling/createMessage", SAMPLE)


async def test_a_failing_host_callback_is_an_error_for_the_server_only() -> None:
    def fail(context: Any, params: Any) -> types.ElicitResult:
        raise RuntimeError("mine")

    assert "'error'" in await asked(stdio_server(elicitation=fail), "elicitation/create", FORM)


async def test_roots_are_listed() -> None:
    assert "file:///data" in await asked(stdio_server(roots=["file:///data"]), "roots/list", {})


async def test_log_messages_go_to_python_logging_without_secrets(caplog: pytest.LogCaptureFixture) -> None:
    server = stdio_server(id="talker", env={"KEY": "canary-secret"})
    with anyio.fail_after(20), caplog.at_level(logging.INFO, "conduit_actors.server.talker"):
        async with open_connection(server) as connection:
            await connection.call_tool("log", {"level": "error", "text": "my key is canary-secret"}, timeout=5)
            while not caplog.records:
                await anyio.sleep(0.02)
    record = next(record for record in caplog.records if record.name == "conduit_actors.server.talker")
    assert (record.levelno, record.getMessage()) == (logging.ERROR, "my key is [redacted]")


def asking_server(rounds: int) -> LowLevelServer[Any]:
    """A 2026-07-28 server whose tool asks `rounds` times before it answers."""

    async def list_tools(context: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[types.Tool(name="greet", input_schema={"type": "object"})])

    async def call_tool(context: Any, params: types.CallToolRequestParams) -> Any:
        done = int(params.request_state or 0)
        if done < rounds:
            question = types.ElicitRequest(params=types.ElicitRequestFormParams.model_validate(FORM))
            return types.InputRequiredResult(input_requests={"who": question}, request_state=str(done + 1))
        answers = params.input_responses or {}
        return types.CallToolResult(content=[types.TextContent(type="text", text=f"{answers}")])

    return LowLevelServer("asking", on_list_tools=list_tools, on_call_tool=call_tool)


def accept(context: Any, params: Any) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"name": "Ada"})


async def test_a_call_that_needs_input_asks_the_host_and_goes_on() -> None:
    with anyio.fail_after(20):
        async with open_connection(Server("in", transport=asking_server(2), elicitation=accept)) as connection:
            result = await connection.call_tool("greet", {}, timeout=5)
    assert "Ada" in result["content"][0]["text"]


async def test_a_call_that_needs_input_fails_where_nobody_answers() -> None:
    with anyio.fail_after(20):
        async with open_connection(Server("in", transport=asking_server(1))) as connection:
            with pytest.raises(ProtocolError, match="not supported"):
                await connection.call_tool("greet", {}, timeout=5)


async def test_a_server_that_asks_for_ever_is_given_up() -> None:
    with anyio.fail_after(20):
        async with open_connection(Server("in", transport=asking_server(1_000), elicitation=accept)) as connection:
            with pytest.raises(ProtocolError, match="more than 10 times"):
                await connection.call_tool("greet", {}, timeout=5)


async def test_an_in_process_server_at_a_handshake_revision() -> None:
    server = Server("in", transport=asking_server(0), protocol="legacy")
    with anyio.fail_after(20):
        async with open_connection(server) as connection:
            assert connection.protocol_version == "2025-11-25"
            assert (await connection.call_tool("greet", {}, timeout=5))["content"]


@pytest.mark.parametrize("protocol", ["auto", "2026-07-28"])
async def test_a_transport_made_anew_for_each_connection_and_principal(protocol: str) -> None:
    principals: list[str | None] = []
    command = str(Path(sys.executable).with_name("mcp-server-time"))

    def transport(principal: str | None) -> Any:
        principals.append(principal)
        return stdio_client(StdioServerParameters(command=command))

    server = Server("time", transport=transport, protocol=protocol)
    with anyio.fail_after(30):
        for principal in ("ada", "bob"):
            async with open_connection(server, principal=principal) as connection:
                assert connection.principal == principal
                assert (await connection.call_tool("get_current_time", {"timezone": "UTC"}, timeout=10))["content"]
    assert principals == ["ada", "bob"]


async def test_a_transport_that_breaks_is_a_lost_connection() -> None:
    """Its task group cancels whoever entered it; that must not be the owner of the connection."""
    failing = anyio.Event()
    command = str(Path(sys.executable).with_name("mcp-server-time"))

    @asynccontextmanager
    async def transport() -> AsyncGenerator[Any]:
        async def fail() -> None:
            await failing.wait()
            raise RuntimeError("the transport broke")

        async with stdio_client(StdioServerParameters(command=command)) as streams:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(fail)
                yield streams

    closed = anyio.Event()
    with anyio.fail_after(30):
        async with open_connection(Server("t", transport=transport), on_closed=closed.set) as connection:
            failing.set()
            await closed.wait()
            assert "the transport broke" in str(connection.failure)
            # The owner was not cancelled.
            await anyio.sleep(0)


async def test_the_private_places_of_the_sdk_are_there() -> None:
    """`opening` replaces `Client._connect`; `sdk_span` replaces `otel_span`; `session` knows the SDK's words."""
    assert callable(Client(asking_server(0))._connect)
    assert callable(jsonrpc_dispatcher.otel_span)
    with anyio.fail_after(20):
        async with open_connection(stdio_server()) as connection:
            with pytest.raises(OutcomeUnknown) as caught:
                await connection.call_tool("die", {}, timeout=10)
    assert str(caught.value.__cause__) == "Connection closed"
