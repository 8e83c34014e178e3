"""`adapters.tools` as a whole, over real hubs: search and call, what a listing reports, and that it is a snapshot."""

from __future__ import annotations

import json
from typing import Annotated, Any

import pytest
from mcp.server.mcpserver import MCPServer
from pydantic import Field

import kitchen
from conduit_actors import Deny, Policy, Server, adapters, errors
from conduit_actors.adapters import Budgets, Profile
from support import open_hub
from turns import APIS, Call, read, turn

pytestmark = pytest.mark.anyio


def name_of(definition: dict[str, Any]) -> str:
    return definition.get("function", definition.get("toolSpec", definition))["name"]


@pytest.mark.parametrize(("provider", "api"), APIS)
async def test_search_offers_a_pair_whose_calls_are_governed_and_routed_like_any(provider: Any, api: Any) -> None:
    server = kitchen.build()
    policy = Policy(allow=["k/*"], ask=["k/echo"], deny=["k/fail"])

    def refuse(request: Any) -> Deny:
        return Deny(f"no {request.arguments['text']}")

    async with open_hub(Server("k", transport=server), policy=policy, on_ask=refuse) as hub:
        listing = await adapters.tools(hub, provider, api=api, search=True)
        assert [name_of(one) for one in listing.tools] == ["search_tools", "call_tool"]
        assert listing.counts["tools"] == 2
        assert len(listing.toolset) > 2
        calls: list[Call] = [
            ("c1", "search_tools", {"query": "add two numbers", "limit": 1}),
            ("c2", "call_tool", {"name": "k__add", "arguments": {"left": 1, "right": 2}}),
            ("c3", "call_tool", {"name": "k__add", "arguments": {"left": "x", "right": 2}}),
            ("c4", "call_tool", {"name": "k__fail"}),
            ("c5", "call_tool", {"name": "k__echo", "arguments": {"text": "hello"}}),
            ("c6", "call_tool", {"name": "nothing"}),
            ("c7", "call_tool", {}),
            ("c8", "call_tool", {"name": "k__add", "arguments": [1]}),
            ("c9", "search_tools", {"query": 5}),
            ("c10", "k__add", {"left": 1, "right": 2}),
        ]
        results = await listing.execute(turn(provider, api, calls))
        answers = [read(one) for one in results.results]
        assert [call_id for call_id, _, _ in answers] == [call_id for call_id, _, _ in calls]
        codes = [getattr(one, "code", "ok") for one in results.outcomes]
        assert codes == [
            *("ok", "ok", "invalid_arguments", "denied", "denied", "unknown_tool", "unknown_tool"),
            *("invalid_arguments", "invalid_arguments", "unknown_tool"),
        ]
        assert "k__add" in answers[0][1]
        assert "no hello" in answers[4][1]
        assert server.calls == ["add"]
        assert results.server_ids == ("k",)


async def test_what_a_search_finds_is_bounded_and_says_how_to_call_it() -> None:
    async with open_hub(Server("k", transport=kitchen.build())) as hub:
        listing = await adapters.tools(hub, "anthropic", search=True)
        asked: list[Call] = [("a", "search_tools", {"query": "ADD"}), ("b", "search_tools", {"query": "qqqq"})]
        results = await listing.execute(turn("anthropic", None, asked))
        found = json.loads(read(results.results[0])[1].splitlines()[0])
        assert found["name"] == "k__add"
        assert found["input_schema"]["required"] == ["left", "right"]
        assert read(results.results[1])[1].startswith("No tool of ")
        assert results.server_ids == ()


async def test_anthropic_strict_through_the_facade() -> None:
    async with open_hub(Server("k", transport=kitchen.build())) as hub:
        plain = await adapters.tools(hub, "anthropic")
        assert plain.counts["strict"] == 0
        assert not plain.fallbacks
        auto = await adapters.tools(hub, "anthropic", strict="auto", budgets=Budgets(tools=3))
        assert auto.counts["strict"] == 3
        assert auto.counts["fallbacks"] == len(auto.fallbacks) == len(auto.tools) - 3
        assert auto.null_paths == {}
        only = await adapters.tools(hub, "anthropic", strict=True, budgets=Budgets(tools=3))
        assert len(only.tools) == 3
        assert len(only.excluded) == len(auto.fallbacks)


async def test_deferral_and_namespaces_through_the_facade_and_back() -> None:
    async with open_hub(Server("k", transport=kitchen.build())) as hub:
        listing = await adapters.tools(hub, "openai", api="responses", namespaces=True, defer=True)
        assert [one["type"] for one in listing.tools] == ["namespace", "tool_search"]
        assert listing.counts["deferred"] == listing.counts["tools"] == len(listing.toolset)
        response = turn("openai", "responses", [("c", "k__add", {"left": 1, "right": 2})])
        response["output"][0]["namespace"] = "k"
        results = await listing.execute(response)
        assert read(results.results[0]) == ("c", "3", False)
        claude = await adapters.tools(hub, "anthropic", defer=["k__s*"], cache_control="1h")
        assert claude.counts["deferred"] >= 1
        assert claude.counts["tools"] == len(claude.toolset) == len(claude.tools) - 1


@pytest.mark.parametrize(
    ("provider", "api", "options"),
    [
        ("gemini", None, {"defer": True}),
        ("bedrock", None, {"output_schemas": True}),
        ("anthropic", None, {"namespaces": True}),
        ("openai", "chat", {"defer": True}),
        ("openai", "responses", {"input_examples": {}}),
        ("openai", "responses", {"search": True, "defer": True}),
    ],
)
async def test_an_option_that_the_provider_does_not_have_raises(provider: Any, api: Any, options: Any) -> None:
    async with open_hub(Server("k", transport=kitchen.build())) as hub:
        with pytest.raises(errors.ConfigurationError):
            await adapters.tools(hub, provider, api=api, **options)


async def test_a_limit_is_reported_and_is_an_option() -> None:
    async with open_hub(Server("k", transport=kitchen.build())) as hub:
        usual = await adapters.tools(hub, "openai", api="chat")
        assert (usual.limit, usual.warnings) == (128, ())
        few = await adapters.tools(hub, "openai", api="chat", tool_limit=3)
        assert few.limit == 3
        assert "more than 3" in few.warnings[0]
        own = await adapters.tools(hub, "openai", api="chat", profile=Profile(max_tools=2))
        assert own.warnings


@pytest.mark.parametrize(("provider", "api"), APIS)
async def test_the_same_tools_give_the_same_bytes_and_equal_principals_share_them(provider: Any, api: Any) -> None:
    async with open_hub(Server("k", transport=kitchen.build())) as hub:
        one = await adapters.tools(hub, provider, api=api, principal="a")
        two = await adapters.tools(hub, provider, api=api, principal="b")
        assert all(left is right for left, right in zip(one.tools, two.tools, strict=True))
        before = json.dumps(one.tools)
    async with open_hub(Server("k", transport=kitchen.build())) as other:
        assert json.dumps((await adapters.tools(other, provider, api=api)).tools) == before


async def test_gemini_keys_renamed_for_the_openapi_dialect_come_back() -> None:
    server = MCPServer("renamed")
    asked: list[Any] = []

    @server.tool()
    def t(x: Annotated[str, Field(alias="a-b")]) -> str:  # pyright: ignore[reportUnusedFunction]
        return x

    def refuse(request: Any) -> Deny:
        asked.append(dict(request.arguments))
        return Deny("seen")

    async with open_hub(Server("k", transport=server), policy=Policy(ask=["*"]), on_ask=refuse) as hub:
        listing = await adapters.tools(hub, "gemini", dialect="openapi")
        (key,) = listing.tools[0]["parameters"]["properties"]
        assert key != "a-b"
        await listing.execute(turn("gemini", None, [("c", "k__t", {key: "x"})]))
    assert asked == [{"a-b": "x"}]


async def test_a_conversation_can_search_too() -> None:
    async with open_hub(Server("k", transport=kitchen.build())) as hub:
        conversation = await hub.conversation("anthropic", search=True)
        assert [name_of(one) for one in conversation.tools] == ["search_tools", "call_tool"]
        call: Call = ("c", "call_tool", {"name": "k__add", "arguments": {"left": 1, "right": 2}})
        results = await conversation.execute(turn("anthropic", None, [call]))
        assert read(results.results[0]) == ("c", "3", False)
        assert conversation.taint == {"k"}
