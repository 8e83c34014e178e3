"""F109: credentials are replaced while the hub runs; and they stay secret before and after."""

from __future__ import annotations

import logging
import sys
from typing import Any

import anyio
import anyio.to_thread
import pytest

from conduit_actors import Server, SyncHub
from conduit_actors.errors import ConfigurationError
from servers import http_server, stdio_server
from support import EVERYTHING, FAST, open_hub, until

pytestmark = pytest.mark.anyio


async def test_headers_are_replaced_without_a_new_session_or_a_lost_call() -> None:
    with http_server() as http, anyio.fail_after(30):
        server = http.server(headers={"X-Key": "canary-old", "X-Tenant": "t1"}, health_interval=None)
        async with open_hub(server) as hub, anyio.create_task_group() as tasks:
            results: list[str] = []

            async def slow() -> None:
                results.append((await hub.call_tool("h__wait", {"seconds": 1})).text)

            await hub.call_tool("h__echo", {"text": "one"})
            tasks.start_soon(slow)
            await until(lambda: hub.status()["h"].in_flight == 1)
            await hub.update_credentials("h", headers={"X-Key": "canary-new"})
            await hub.call_tool("h__echo", {"text": "two"})
            await until(lambda: bool(results))
            assert hub.status()["h"].restarts == 0
        calls = [one for one in await anyio.to_thread.run_sync(http.admin, "log") if one["method"] == "tools/call"]
    assert [one["headers"].get("X-Key") for one in calls] == ["canary-old", "canary-old", "canary-new"]
    assert [one["headers"].get("X-Tenant") for one in calls] == ["t1", "t1", None]
    assert len({one["session"] for one in calls}) == 1


async def test_a_token_is_replaced_and_a_parked_server_is_tried_again_at_once(caplog: pytest.LogCaptureFixture) -> None:
    with http_server("token=canary-right") as http, anyio.fail_after(30), caplog.at_level(logging.DEBUG):
        server = http.server(auth=lambda: "canary-wrong", restart=FAST)
        async with open_hub(server) as hub:
            assert hub.status()["h"].state == "parked"
            await hub.update_credentials("h", auth=lambda: "canary-right")
            await hub.wait_ready()
            assert (await hub.call_tool("h__echo", {"text": "in"})).text == "in"
            await anyio.to_thread.run_sync(http.admin, "token?canary-third")
            await hub.update_credentials("h", auth=lambda: "canary-third")
            assert (await hub.call_tool("h__echo", {"text": "still"})).text == "still"
            assert "canary" not in f"{hub.status()!r}{hub.status()['h'].last_error}"
    ours = [record.getMessage() for record in caplog.records if record.name.startswith(("conduit", "mcp", "httpx"))]
    assert "canary" not in "".join(ours)


PROGRAM = """
import os, sys
from mcp.server.mcpserver import MCPServer
server = MCPServer("env")

@server.tool()
def key() -> str:
    print("the key is", os.environ["KEY"], file=sys.stderr, flush=True)
    return os.environ["KEY"]

server.run()
"""


async def test_a_program_is_restarted_with_its_new_environment() -> None:
    server = Server("s", command=sys.executable, args=["-c", PROGRAM], env={"KEY": "canary-one"}, restart=FAST)
    with anyio.fail_after(60):
        async with open_hub(server) as hub:
            assert (await hub.call_tool("s__key", shape=None)).text == "canary-one"
            await hub.update_credentials("s", env={"KEY": "canary-two"})
            assert (await hub.call_tool("s__key", shape=None)).text == "canary-two"
            await until(lambda: bool(hub.status()["s"].stderr))
            assert "canary" not in "".join(hub.status()["s"].stderr)


@pytest.mark.parametrize("given", [{}, {"env": {"KEY": "x"}}])
async def test_what_the_server_has_no_use_for_is_refused(given: dict[str, Any]) -> None:
    with http_server() as http, anyio.fail_after(30):
        async with open_hub(http.server(), stdio_server()) as hub:
            with pytest.raises(ConfigurationError):
                await hub.update_credentials("h", **given)
            with pytest.raises(ConfigurationError):
                await hub.update_credentials("s", headers={"X": "y"})
            with pytest.raises(ConfigurationError):
                await hub.update_credentials("nobody", headers={"X": "y"})


def test_from_a_plain_program() -> None:
    with http_server("token=one") as http:
        server = http.server(auth=lambda: "one")
        with SyncHub(servers=[server], policy=EVERYTHING) as hub:
            hub.wait_ready(20)
            http.admin("token?two")
            hub.update_credentials("h", auth=lambda: "two")
            assert hub.call_tool("h__echo", {"text": "hi"}).text == "hi"
