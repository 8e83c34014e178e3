"""`adapters.tools` and `adapters.execute_tool_calls`, for each provider, over a real hub."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest

import kitchen
from conduit_actors import Allow, Client, Deny, Policy, Server, adapters, errors
from conduit_actors.names import NAME_PATTERN
from provider_types import check
from support import open_hub, stdio
from turns import APIS, Call, read, turn

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(("provider", "api"), APIS)
async def test_definitions_have_the_providers_shape_and_legal_names(provider: Any, api: Any) -> None:
    async with open_hub(Server("k.1", transport=kitchen.build())) as hub:
        listing = await adapters.tools(hub, provider, api=api)
        assert len(listing.tools) == len(listing.toolset) == 12
        for tool in listing.tools:
            match provider, api:
                case "anthropic", _:
                    check("anthropic.tool", tool)
                    name, schema = tool["name"], tool["input_schema"]
                case "openai", "chat":
                    check("chat.tool", tool)
                    name, schema = tool["function"]["name"], tool["function"]["parameters"]
                    assert isinstance(tool["function"]["strict"], bool)
                case "openai", _:
                    check("responses.tool", tool)
                    name, schema = tool["name"], tool["parameters"]
                    assert isinstance(tool["strict"], bool)
                case "gemini", _:
                    check("gemini.tool", tool)
                    name, schema = tool["name"], tool["parametersJsonSchema"]
                case _:
                    name, schema = tool["toolSpec"]["name"], tool["toolSpec"]["inputSchema"]["json"]
            assert NAME_PATTERN.match(name)
            assert schema["type"] == "object"


@pytest.mark.parametrize(("provider", "api"), APIS)
async def test_every_call_of_a_turn_is_answered_in_order_with_its_id(provider: Any, api: Any) -> None:
    async def approver(request: Any) -> Any:
        return Allow() if request.arguments.get("text") == "yes" else Deny("no")

    policy = Policy(allow=["k/*"], ask=["k/echo"], deny=["k/fail"])
    async with open_hub(Server("k", transport=kitchen.build()), policy=policy, on_ask=approver) as hub:
        calls: list[Call] = [
            ("c1", "k__add", {"left": 1, "right": 2}),
            ("c2", "k__fail", {}),
            ("c3", "k__echo", {"text": "yes"}),
            ("c4", "k__echo", {"text": "no"}),
            ("c5", "k__unknown", {}),
            ("c6", "k__sleep", {"seconds": 60}),
            ("c7", "k__add", {"left": "x", "right": 2}),
            ("c8", "k__nothing", {}),
            ("c9", "k__add", [1, 2]),
        ]
        results = await adapters.execute_tool_calls(hub, provider, turn(provider, api, calls), api=api, call_timeout=1)
        answers = [read(answer) for answer in results.results]
        assert [call_id for call_id, _, _ in answers] == [call_id for call_id, _, _ in calls]
        assert all(text.strip() for _, text, _ in answers)
        codes = [getattr(outcome, "code", "ok") for outcome in results.outcomes]
        assert codes == [
            "ok",
            "denied",
            "ok",
            "denied",
            "unknown_tool",
            "timeout",
            "invalid_arguments",
            "ok",
            "invalid_arguments",
        ]
        assert [error for _, _, error in answers] == [code != "ok" for code in codes]
        assert not results.halted
        assert results.server_ids == ("k",)


@pytest.mark.parametrize(("provider", "api"), APIS)
async def test_halt_is_told_and_all_calls_are_answered(provider: Any, api: Any) -> None:
    policy = Policy(allow=["*"], ask=["k/echo"])
    server = Server("k", transport=kitchen.build())
    async with open_hub(server, policy=policy, on_ask=lambda request: Deny("stop", halt=True)) as hub:
        calls: list[Call] = [("a", "k__echo", {}), ("b", "k__add", {"left": 1, "right": 1})]
        results = await adapters.execute_tool_calls(hub, provider, turn(provider, api, calls), api=api)
        assert results.halted
        assert len(results.results) == 2


@pytest.mark.parametrize(
    ("provider", "api", "more"),
    [
        ("anthropic", None, {"stop_reason": "max_tokens"}),
        ("anthropic", None, {"stop_reason": "refusal"}),
        ("openai", "chat", {"finish_reason": "length"}),
        ("openai", "responses", {"status": "incomplete"}),
        ("gemini", None, {"finishReason": "MAX_TOKENS"}),
        ("bedrock", None, {"stopReason": "max_tokens"}),
    ],
)
async def test_nothing_runs_from_a_turn_that_was_cut_off(provider: Any, api: Any, more: dict[str, str]) -> None:
    server = kitchen.build()
    async with open_hub(Server("k", transport=server)) as hub:
        response = turn(provider, api, [("a", "k__echo", {"text": "hi"})], **more)
        results = await adapters.execute_tool_calls(hub, provider, response, api=api)
        assert server.calls == []
        call_id, text, error = read(results.results[0])
        assert (call_id, error) == ("a", True)
        assert next(iter(more.values())) in text


@pytest.mark.parametrize(("provider", "api"), [("openai", "chat"), ("openai", "responses")])
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ("", "ok"),
        ("   ", "ok"),
        ("{}", "ok"),
        ("null", "invalid_arguments"),
        ("[1]", "invalid_arguments"),
        ('"x"', "invalid_arguments"),
        ("5", "invalid_arguments"),
        ('{"text": NaN}', "invalid_arguments"),
        ('{"text": "a', "invalid_arguments"),
        ('{"text": "a", "text": "b"}', "invalid_arguments"),
        ("{" + "x" * 1_000_000, "invalid_arguments"),
    ],
)
async def test_arguments_are_an_object_or_the_call_is_refused(
    provider: Any, api: Any, arguments: str, code: str
) -> None:
    server = kitchen.build()
    async with open_hub(Server("k", transport=server)) as hub:
        calls: list[Call] = [("a", "k__echo", {}), ("b", "k__echo", arguments), ("c", "k__echo", {})]
        results = await adapters.execute_tool_calls(hub, provider, turn(provider, api, calls), api=api)
        codes = [getattr(outcome, "code", "ok") for outcome in results.outcomes]
        assert codes == ["ok", code, "ok"]
        assert len(read(results.results[1])[1]) < 2_000
        assert len(server.calls) == (3 if code == "ok" else 2)


async def test_what_a_provider_runs_itself_and_unknown_items_are_passed_over() -> None:
    server = kitchen.build()
    async with open_hub(Server("k", transport=server)) as hub:
        anthropic = turn("anthropic", None, [("a", "k__echo", {"text": "hi"})])
        anthropic["content"] += [
            {"type": "server_tool_use", "id": "s", "name": "k__echo", "input": {}},
            {"type": "mcp_tool_use", "id": "m", "name": "k__echo", "input": {}},
            {"type": "tool_use", "id": "t", "name": "k__echo", "input": {}, "toolset_name": "browser"},
            {"type": "something_new"},
        ]
        assert len((await adapters.execute_tool_calls(hub, "anthropic", anthropic)).results) == 1
        responses = turn("openai", "responses", [("a", "k__echo", {"text": "hi"})])
        responses["output"] += [{"type": "mcp_call", "name": "k__echo"}, {"type": "reasoning"}, {"type": "new"}]
        assert len((await adapters.execute_tool_calls(hub, "openai", responses, api="responses")).results) == 1
        gemini = turn("gemini", None, [("a", "k__echo", {"text": "hi"})])
        gemini["candidates"][0]["content"]["parts"] += [{"text": "hm"}, {"executableCode": {"code": "1"}}]
        assert len((await adapters.execute_tool_calls(hub, "gemini", gemini)).results) == 1
        assert len(server.calls) == 3


async def test_the_sdks_own_objects_are_taken() -> None:
    from anthropic.types import Message
    from google.genai.types import GenerateContentResponse
    from openai.types.chat import ChatCompletion
    from openai.types.responses import Response

    calls: list[Call] = [("a", "k__add", {"left": 1, "right": 2})]
    objects: list[tuple[Any, Any, Any]] = [
        ("anthropic", None, Message.model_construct(**turn("anthropic", None, calls))),
        (
            "openai",
            "chat",
            ChatCompletion.model_validate(
                {
                    **turn("openai", "chat", calls),
                    "id": "1",
                    "created": 1,
                    "model": "m",
                    "object": "chat.completion",
                    "choices": [
                        {
                            "index": 0,
                            "logprobs": None,
                            "finish_reason": "tool_calls",
                            "message": {
                                "role": "assistant",
                                "content": None,
                                "refusal": None,
                                **turn("openai", "chat", calls)["choices"][0]["message"],
                            },
                        }
                    ],
                }
            ),
        ),
        ("openai", "responses", Response.model_construct(**turn("openai", "responses", calls))),
        ("gemini", None, GenerateContentResponse.model_validate(turn("gemini", None, calls))),
    ]
    async with open_hub(Server("k", transport=kitchen.build())) as hub:
        for provider, api, response in objects:
            results = await adapters.execute_tool_calls(hub, provider, response, api=api)
            assert read(results.results[0])[:2] == ("a", "3" if provider != "gemini" else "{'result': 3}")


async def test_duplicate_ids_are_answered_once_and_missing_ones_get_one() -> None:
    async with open_hub(Server("k", transport=kitchen.build())) as hub:
        twice = turn("anthropic", None, [("a", "k__echo", {"text": "1"}), ("a", "k__echo", {"text": "2"})])
        assert len((await adapters.execute_tool_calls(hub, "anthropic", twice)).results) == 1
        gemini = turn("gemini", None, [("x", "k__echo", {"text": "1"}), ("y", "k__echo", {"text": "2"})])
        for part in gemini["candidates"][0]["content"]["parts"]:
            del part["functionCall"]["id"]
        answers = (await adapters.execute_tool_calls(hub, "gemini", gemini)).results
        assert [answer["functionResponse"]["response"]["output"]["result"] for answer in answers] == ["1", "2"]
        assert all("id" not in answer["functionResponse"] for answer in answers)


async def test_geminis_integral_floats_are_integers_where_the_schema_says_so() -> None:
    async with open_hub(Server("k", transport=kitchen.build())) as hub:
        response = turn("gemini", None, [("a", "k__add", {"left": 1.0, "right": 2.0})])
        assert read((await adapters.execute_tool_calls(hub, "gemini", response)).results[0])[1] == "{'result': 3}"


async def test_strict_nulls_are_taken_back_before_the_call() -> None:
    async with open_hub(Server("k", transport=kitchen.build())) as hub:
        listing = await adapters.tools(hub, "openai", api="responses")
        assert ("text",) in listing.null_paths["k__echo"]
        assert ("value",) not in listing.null_paths["k__echo"]  # null is a value of its own there
        response = turn("openai", "responses", [("a", "k__echo", {"text": None, "value": 5})])
        results = await listing.execute(response)
        assert read(results.results[0])[1] == "5"


async def test_images_go_out_natively_where_the_provider_takes_them() -> None:
    async with open_hub(Server("k", transport=kitchen.build())) as hub:

        async def answer(provider: Any, api: Any = None, **options: Any) -> dict[str, Any]:
            response = turn(provider, api, [("a", "k__picture", {})])
            results = await adapters.execute_tool_calls(hub, provider, response, api=api, **options)
            read(results.results[0])
            return results.results[0]

        block = (await answer("anthropic"))["content"][0]
        assert block["type"] == "image"
        assert block["source"]["media_type"] == "image/png"
        assert (await answer("openai", "chat"))["content"] == f"[image: image/png, {len(kitchen.PNG)} bytes]"
        item = (await answer("openai", "responses"))["output"][0]
        assert item["type"] == "input_image"
        assert item["image_url"].startswith("data:image/png;base64,")
        assert "[image: image/png" in str(await answer("gemini"))
        shown = (await answer("gemini", multimodal=True))["functionResponse"]
        assert shown["parts"][0]["inlineData"]["mimeType"] == "image/png"


async def test_calls_of_a_turn_run_at_once_within_max_concurrency() -> None:
    async with open_hub(stdio()) as hub:
        calls: list[Call] = [(str(n), "kitchen__sleep", {"seconds": 0.2, "text": str(n)}) for n in range(8)]
        running: list[int] = []

        async def watch() -> None:
            while True:
                running.append(hub.status()["kitchen"].in_flight)
                await anyio.sleep(0.005)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch)
            await adapters.execute_tool_calls(hub, "anthropic", turn("anthropic", None, calls))
            most_at_once = max(running)
            running.clear()
            await adapters.execute_tool_calls(hub, "anthropic", turn("anthropic", None, calls), max_concurrency=2)
            tasks.cancel_scope.cancel()
        assert most_at_once == 8
        assert max(running) == 2


async def test_the_same_tool_set_gives_the_same_bytes_and_one_list_for_all_principals() -> None:
    async with open_hub(Server("k", transport=kitchen.build())) as hub:
        first = await adapters.tools(hub, "anthropic", principal="ann")
        second = await adapters.tools(hub, "anthropic", principal="bob")
        assert json.dumps(first.tools) == json.dumps(second.tools)
        assert first.toolset is second.toolset
        assert first.tools[0] is second.tools[0]


async def test_cache_control_prefix_limit_and_error_prefix() -> None:
    async with Client("solo", Server("k", transport=kitchen.build())) as client:
        await client.wait_ready(timeout=10)
        listing = await adapters.tools(client, "anthropic", cache_control="last", prefix="kit_", limit=3)
        assert [tool["name"] for tool in listing.tools] == ["kit_echo", "kit_add", "kit_sleep"]
        assert listing.tools[-1]["cache_control"] == {"type": "ephemeral"}
        assert all("cache_control" not in tool for tool in listing.tools[:-1])
        assert len(listing.excluded) == 9
        results = await listing.execute(turn("anthropic", None, [("a", "kit_echo", {"text": "hi"})]))
        assert read(results.results[0])[1] == "hi"
        hour = await adapters.tools(client, "anthropic", cache_control="1h")
        assert hour.tools[-1]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
        chat = turn("openai", "chat", [("a", "nope", {})])
        failed = await adapters.execute_tool_calls(client, "openai", chat, api="chat", error_prefix="FAILED ")
        assert failed.results[0]["content"].startswith("FAILED ")


async def test_a_source_is_found_by_its_name_and_a_hub_wins() -> None:
    async with open_hub(Server("k", transport=kitchen.build())) as hub:
        async with Client("test", Server("c", transport=kitchen.build())) as client:
            await client.wait_ready(timeout=10)
            assert (await adapters.tools("test", "gemini")).source is hub
        async with Client("alone", Server("c", transport=kitchen.build())) as client:
            assert (await adapters.tools("alone", "gemini")).source is client
    with pytest.raises(errors.ConfigurationError, match="no open hub"):
        await adapters.tools("test", "gemini")


async def test_only_the_callers_own_misuse_raises() -> None:
    async with open_hub(Server("k", transport=kitchen.build())) as hub:
        for provider, api, response in [
            ("openai", None, {}),
            ("mistral", None, {}),
            ("anthropic", "chat", {}),
            ("anthropic", None, 5),
        ]:
            with pytest.raises(errors.ConfigurationError):
                await adapters.execute_tool_calls(hub, provider, response, api=api)  # pyright: ignore
        for empty in ({}, {"content": None}, {"content": []}):
            assert (await adapters.execute_tool_calls(hub, "anthropic", empty)).results == []


async def test_no_tools_is_an_empty_list() -> None:
    async with open_hub(Server("k", transport=kitchen.build()), policy=Policy()) as hub:
        for provider, api in APIS:
            assert (await adapters.tools(hub, provider, api=api)).tools == []
