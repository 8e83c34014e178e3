"""A hub for programs without an event loop of their own."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import kitchen
from conduit_actors import PinStore, Policy, Server, SyncHub, errors
from support import EVERYTHING, stdio


def test_plain_code_and_eight_threads_use_it() -> None:
    with SyncHub("sync", servers=[stdio()], policy=EVERYTHING) as hub:
        assert hub.wait_ready(timeout=30).ready
        assert "kitchen__echo" in hub.list_tools()
        answers: list[str] = []

        def call(number: int) -> None:
            answers.append(hub.call_tool("kitchen__echo", {"text": str(number)}).text)

        threads = [threading.Thread(target=call, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=30)
        assert sorted(answers) == [str(number) for number in range(8)]
        response: dict[str, Any] = {"content": [{"type": "tool_use", "id": "a", "name": "kitchen__echo", "input": {}}]}
        listing = hub.tools("anthropic")
        assert len(hub.execute_tool_calls("anthropic", response, toolset=listing.toolset).results) == 1
        with pytest.raises(errors.UnknownTool):
            hub.call_tool("nope")
    with pytest.raises(errors.ConfigurationError):
        hub.call_tool("kitchen__echo")


@pytest.mark.anyio
async def test_it_works_in_a_running_loops_thread(anyio_backend: str) -> None:
    with SyncHub("inside", servers=[Server("k", transport=kitchen.build())], policy=EVERYTHING) as hub:
        hub.wait_ready(timeout=10)
        assert hub.call_tool("k__echo", {"text": "hi"}).text == "hi"


def test_pins_policy_and_a_conversation_without_a_loop() -> None:
    server = Server("k", transport=kitchen.build(), pin=PinStore(hold_new=True))
    with SyncHub("pinned", servers=[server], policy=EVERYTHING) as hub:
        hub.wait_ready(timeout=10)
        assert not hub.list_tools()
        (finding,) = [one for one in hub.status()["k"].pins if one.tool == "echo"]
        hub.approve_tool(finding)
        assert hub.list_tools().names == ("k__echo",)
        conversation = hub.conversation("anthropic", principal="ann", call_timeout=30)
        assert [tool["name"] for tool in conversation.tools] == ["k__echo"]
        call = {"type": "tool_use", "id": "a", "name": "k__echo", "input": {"text": "hi"}}
        results = conversation.execute({"content": [call]})
        assert not results.results[0].get("is_error")
        assert conversation.taint == {"k"}
        hub.set_policy(Policy(deny=["*"]))
        assert conversation.refresh()
        assert conversation.tools == []
        assert len(hub.known_tools()) == 1
        conversation.add_taint(["web"])
        assert conversation.taint == {"k", "web"}
