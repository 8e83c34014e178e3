"""What `adapters.openai.tools` and `adapters.gemini.tools` write beside schemas: namespaces, tool search, output schemas,
profiles of compatible servers."""

from __future__ import annotations

from typing import Any

import pytest

from conduit_actors import ExposedTool, ToolSet
from conduit_actors.adapters import gemini, openai
from conduit_actors.adapters.profiles import Profile
from conduit_actors.errors import ConfigurationError
from conduit_actors.results import ToolCall
from provider_types import check
from schema_material import check_gemini_openapi, obj, real_tools, schemas_in

TEXT = {"type": "string"}


def offer(*names: str, output: Any = None, schema: Any = None) -> ToolSet:
    return ToolSet(
        ExposedTool(
            name=name.replace("/", "__").replace(".", "_"),
            server_id=name.partition("/")[0],
            tool=name.partition("/")[2],
            input_schema=schema or obj("x", x=TEXT),
            output_schema=output,
        )
        for name in names
    )


def call(name: str, **more: Any) -> dict[str, Any]:
    return {"output": [{"type": "function_call", "call_id": "c", "name": name, "arguments": '{"x": "1"}', **more}]}


def test_responses_a_namespace_per_server_in_order() -> None:
    made = openai.tools(offer("a.1/x", "b/y", "a.1/z"), api="responses", namespaces=True)
    assert [(one["type"], one["name"]) for one in made] == [("namespace", "a_1"), ("namespace", "b")]
    assert [one["name"] for one in made[0]["tools"]] == ["a_1__x", "a_1__z"]
    for one in made:
        check("responses.namespace", one)
        assert one["description"]


def test_responses_two_servers_never_share_a_namespace() -> None:
    tools = [ExposedTool(name=f"t{i}", server_id=one, tool="t") for i, one in enumerate(("a.1", "a_1", "x" * 80))]
    names = [one["name"] for one in openai.tools(ToolSet(tools), api="responses", namespaces=True)]
    assert len(set(names)) == 3
    assert all(len(name) <= 64 for name in names)


@pytest.mark.parametrize(
    ("name", "namespace", "tool"),
    [
        ("a__x", "a", "x"),
        ("a__x", None, "x"),
        ("a__x", "a__x", "x"),  # a deferred call may carry its own name
        ("x", "a", "x"),  # the server's own name, inside its namespace
        ("a__x", "b", None),
        ("a__x", "elsewhere", None),
        ("x", None, None),
    ],
)
def test_responses_a_namespaced_call_finds_its_tool_or_none(name: str, namespace: str | None, tool: str | None) -> None:
    (found,) = openai.parse(call(name, namespace=namespace), offer("a/x", "b/y"), api="responses")
    assert (found.tool if isinstance(found, ToolCall) else None) == tool
    assert found.call_id == "c"


def test_responses_deferred_functions_come_with_tool_search() -> None:
    made = openai.tools(offer("a/x", "b/y"), api="responses", defer=["b__*"])
    assert [one.get("defer_loading", False) for one in made] == [False, True, False]
    assert made[-1] == {"type": "tool_search"}
    inside = openai.tools(offer("a/x", "b/y"), api="responses", defer=True, namespaces=True)
    assert all(one["defer_loading"] for group in inside[:-1] for one in group["tools"])
    assert openai.tools(offer("a/x"), api="responses", defer=["other"])[-1]["type"] == "function"


def test_output_schemas_are_said_where_asked_for() -> None:
    toolset = offer("a/x", output={"type": "array", "items": {"type": "integer"}})
    said = openai.tools(toolset, api="responses", output_schemas=True)[0]
    assert said["output_schema"] == {"type": "array", "items": {"type": "integer"}}
    check("responses.tool", said)
    declared = gemini.tools(toolset, output_schemas=True)[0]
    assert declared["responseJsonSchema"]["type"] == "array"
    check("gemini.tool", declared)
    assert "output_schema" not in openai.tools(toolset, api="responses")[0]
    assert "responseJsonSchema" not in gemini.tools(toolset)[0]


@pytest.mark.parametrize("option", ["defer", "namespaces", "output_schemas"])
def test_chat_has_none_of_it(option: str) -> None:
    options: dict[str, Any] = {option: True}
    with pytest.raises(ConfigurationError):
        openai.tools(offer("a/x"), api="chat", **options)


@pytest.mark.parametrize("profile", ["mistral", "ollama", "vllm", "cohere", "groq", Profile(strict=False)])
def test_a_server_without_strict_does_not_get_the_key(profile: Any) -> None:
    made = openai.tools(offer("a/x", schema=obj(x=TEXT)), api="chat", profile=profile)
    assert "strict" not in made[0]["function"]
    assert made[0]["function"]["parameters"]["properties"] == {"x": TEXT}
    assert not made.null_paths
    assert not made.fallbacks


def test_deepseeks_strict_mode_gets_no_lengths() -> None:
    bounded = {"type": "string", "minLength": 1, "maxLength": 5}
    schema = obj("minLength", "l", minLength=bounded, l={"type": "array", "items": bounded, "minItems": 1})
    function = openai.tools(offer("a/x", schema=schema), api="chat", profile="deepseek")[0]["function"]
    assert function["strict"] is True
    assert list(function["parameters"]["properties"]) == ["minLength", "l"]
    for node in schemas_in(function["parameters"]):
        assert not {"minLength", "maxLength"} & node.keys()
    assert function["parameters"]["properties"]["l"]["minItems"] == 1


def test_an_unknown_profile_raises() -> None:
    with pytest.raises(ConfigurationError):
        openai.tools(offer("a/x"), api="chat", profile="nobody")


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("chat.tool", {"api": "chat"}),
        ("chat.tool", {"api": "chat", "profile": "deepseek"}),
        ("chat.tool", {"api": "chat", "profile": "groq"}),
        ("responses.tool", {"api": "responses", "strict": True}),
        ("responses.tool", {"api": "responses", "output_schemas": True}),
        ("responses.namespace", {"api": "responses", "namespaces": True, "defer": True}),
    ],
)
def test_all_real_tools_pass_the_sdks_own_types(kind: str, options: Any) -> None:
    schemas = real_tools()
    tools = [
        ExposedTool(name=f"t{i}", server_id="s", tool=name, input_schema=one, output_schema=one)
        for i, (name, one) in enumerate(schemas)
    ]
    made = openai.tools(ToolSet(tools), **options)
    for one in made:
        if one["type"] != "tool_search":
            check(kind, one)
    known = made[0]["tools"] if "namespaces" in options else made
    assert len(known) + len(made.excluded) == len(tools)


@pytest.mark.parametrize("options", [{}, {"dialect": "openapi"}, {"output_schemas": True}])
def test_gemini_all_real_tools_pass_the_sdks_own_types(options: Any) -> None:
    tools = [
        ExposedTool(name=f"t{i}", server_id="s", tool=name, input_schema=one, output_schema=one)
        for i, (name, one) in enumerate(real_tools())
    ]
    made = gemini.tools(ToolSet(tools), **options)
    assert len(made) + len(made.excluded) == len(tools)
    for one in made:
        check("gemini.tool", one)
        if "parameters" in one:
            check_gemini_openapi(one["parameters"])
