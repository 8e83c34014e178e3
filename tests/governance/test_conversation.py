"""Conversations: what is kept from turn to turn."""

from __future__ import annotations

from typing import Any

import pytest

import kitchen
from conduit_actors import Client, Policy, Server, errors, tainted
from support import open_hub

pytestmark = pytest.mark.anyio


def turn(*calls: tuple[str, str, dict[str, Any]]) -> dict[str, Any]:
    content = [{"type": "tool_use", "id": id_, "name": name, "input": given} for id_, name, given in calls]
    return {"stop_reason": "tool_use", "content": content}


async def test_what_the_model_has_read_taints_the_next_turn_but_not_its_own() -> None:
    policy = Policy(allow=["*"], deny=[tainted("mail/echo", by="web")])
    servers = [Server("web", transport=kitchen.build()), Server("mail", transport=kitchen.build())]
    async with open_hub(*servers, policy=policy) as hub:
        conversation = await hub.conversation("anthropic", principal="ann")
        assert {tool["name"] for tool in conversation.tools} >= {"web__echo", "mail__echo"}
        both = turn(("a", "web__echo", {"text": "page"}), ("b", "mail__echo", {"text": "out"}))
        first = await conversation.execute(both)
        assert [getattr(outcome, "code", "ok") for outcome in first.outcomes] == ["ok", "ok"]
        assert conversation.taint == {"web", "mail"}
        second = await conversation.execute(both)
        assert [getattr(outcome, "code", "ok") for outcome in second.outcomes] == ["ok", "denied"]
        other = await hub.conversation("anthropic", principal="ann")
        assert other.taint == frozenset()


async def test_a_call_that_brought_nothing_does_not_taint() -> None:
    async with open_hub(Server("k", transport=kitchen.build()), policy=Policy(ask=["*"])) as hub:
        conversation = await hub.conversation("anthropic", taint=["web"])
        await conversation.execute(turn(("a", "k__echo", {})))
        assert conversation.taint == {"web"}


async def test_tools_stay_the_same_until_they_are_asked_for_anew() -> None:
    server = kitchen.build()
    async with open_hub(Server("k", transport=server)) as hub:
        conversation = await hub.conversation("openai", api="chat", strict=False)
        before = conversation.tools
        await hub.add_server(Server("late", transport=kitchen.build()))
        await hub.wait_ready(10)
        assert conversation.tools is before
        assert await conversation.refresh()
        assert any(tool["function"]["name"].startswith("late__") for tool in conversation.tools)
        assert not await conversation.refresh()


async def test_options_hold_for_each_turn_and_unknown_ones_are_refused() -> None:
    async with Client("solo", Server("k", transport=kitchen.build())) as client:
        await client.wait_ready(10)
        conversation = await client.conversation("anthropic", call_timeout=0.3)
        results = await conversation.execute(turn(("a", "sleep", {"seconds": 60})))
        assert getattr(results.outcomes[0], "code", "ok") == "timeout"
        results = await conversation.execute(turn(("a", "sleep", {"seconds": 0.4})), call_timeout=30)
        assert not results.results[0].get("is_error")
        with pytest.raises(errors.ConfigurationError, match="call_timeuot"):
            await client.conversation("anthropic", call_timeuot=1)
        with pytest.raises(errors.ConfigurationError):
            await client.conversation("nobody")  # pyright: ignore[reportArgumentType]
