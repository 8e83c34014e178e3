"""What `adapters.anthropic.tools` writes: strict mode and its budgets, tool search, examples, caching."""

from __future__ import annotations

from typing import Any

import pytest

from conduit_actors import ExposedTool, ToolSet
from conduit_actors.adapters import anthropic
from conduit_actors.adapters.schemas.anthropic_strict import Budgets
from conduit_actors.errors import ConfigurationError
from provider_types import check
from schema_material import check_anthropic, obj, real_tools

TEXT = {"type": "string"}


def offer(**schemas: Any) -> ToolSet:
    return ToolSet(
        ExposedTool(name=f"s__{name}", server_id="s", tool=name, input_schema=one) for name, one in schemas.items()
    )


def named(made: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in made}


def test_strict_is_off_unless_asked_for() -> None:
    assert "strict" not in anthropic.tools(offer(a=obj("x", x=TEXT)))[0]


def test_strict_auto_spends_the_budgets_of_the_request_in_order_and_reports_the_rest() -> None:
    toolset = offer(
        a=obj(x=TEXT), b=obj(x=TEXT, y=TEXT), c=obj("x", x=TEXT), d={"type": "object", "patternProperties": {"^a": {}}}
    )
    made = anthropic.tools(toolset, strict="auto", budgets=Budgets(optional=2))
    assert [one.get("strict", False) for one in made] == [True, False, True, False]
    assert {one.name: one.reason for one in made.fallbacks} == {
        "s__b": "more than 2 optional parameters in a request",
        "s__d": "patternProperties",
    }
    assert made.fallbacks[1].path == ("patternProperties",)
    assert made.null_paths == {}
    for one in made:
        check("anthropic.tool", one)
        check_anthropic(one["input_schema"])


def test_strict_true_leaves_out_what_cannot_be_strict() -> None:
    made = anthropic.tools(offer(a=obj("x", x=TEXT), b=obj("x", x=TEXT)), strict=True, budgets=Budgets(tools=1))
    assert list(named(made)) == ["s__a"]
    assert [one.tool for one in made.excluded] == ["b"]
    assert "more than 1 strict tools" in made.excluded[0].reason
    assert not made.fallbacks


def test_deferred_tools_come_with_a_search_tool_that_is_not_deferred() -> None:
    made = anthropic.tools(offer(a=obj(), b=obj(), c=obj()), "1h", defer=["s__b", "s__c*"])
    assert made[0] == {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}
    assert [one.get("defer_loading", False) for one in made[1:]] == [False, True, True]
    # "Tools with defer_loading cannot use prompt caching"
    assert [one.get("cache_control") for one in made] == [None, {"type": "ephemeral", "ttl": "1h"}, None, None]
    for one in made[1:]:
        check("anthropic.tool", one)


def test_refusal_all_tools_have_defer_loading_set() -> None:
    made = anthropic.tools(offer(a=obj(), b=obj()), "last", defer=True, tool_search=None)
    assert [one.get("defer_loading", False) for one in made] == [False, True]
    assert made.changes["s__a"] == ("not deferred: one tool must not be",)
    assert "cache_control" in made[0]
    searched = anthropic.tools(offer(a=obj()), "last", defer=True, tool_search="regex")
    assert searched[0]["type"] == "tool_search_tool_regex_20251119"
    assert "cache_control" in searched[0]


def test_without_a_deferred_tool_there_is_no_search_tool() -> None:
    assert list(named(anthropic.tools(offer(a=obj()), defer=["other"]))) == ["s__a"]
    assert anthropic.tools(ToolSet(), "last", defer=True) == []


def test_input_examples_have_the_definitions_keys_and_those_that_do_not_fit_are_left_out() -> None:
    toolset = offer(a=obj("a b", **{"a b": TEXT}))
    made = anthropic.tools(toolset, input_examples={"s__a": [{"a b": "x"}, {"a b": 1}]})
    (key,) = made[0]["input_schema"]["properties"]
    assert key != "a b"
    assert made[0]["input_examples"] == [{key: "x"}]
    assert any("input example 1 was left out" in change for change in made.changes["s__a"])
    check("anthropic.tool", made[0])


def test_input_examples_are_not_sent_with_tool_search() -> None:
    made = anthropic.tools(offer(a=obj()), defer=True, input_examples={"s__a": [{}]})
    assert "input_examples" not in made[1]
    assert made.changes["s__a"] == ("input examples were left out: tool search does not take them",)


def test_eager_input_streaming() -> None:
    made = anthropic.tools(offer(a=obj()), eager_input_streaming=True)
    assert made[0]["eager_input_streaming"] is True
    check("anthropic.tool", made[0])


def test_misuse_raises() -> None:
    with pytest.raises(ConfigurationError):
        anthropic.tools(offer(a=obj()), defer="s__a")
    with pytest.raises(ConfigurationError):
        anthropic.tools(offer(a=obj()), defer=True, tool_search="other")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    "options", [{}, {"strict": "auto"}, {"strict": True}, {"defer": True, "cache_control": "last"}]
)
def test_all_real_tools_pass_the_sdks_own_types(options: dict[str, Any]) -> None:
    tools = [
        ExposedTool(name=f"t{index}", server_id="s", tool=name, input_schema=schema)
        for index, (name, schema) in enumerate(real_tools())
    ]
    made = anthropic.tools(ToolSet(tools), **options)
    known = [one for one in made if "input_schema" in one]
    assert len(known) + len(made.excluded) == len(tools)
    assert sum(one.get("strict", False) for one in known) <= 20
    for one in known:
        check("anthropic.tool", one)
        check_anthropic(one["input_schema"])
