"""A hub for programs without an event loop of their own."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import kitchen
from conduit_actors import Server, SyncHub, errors
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
