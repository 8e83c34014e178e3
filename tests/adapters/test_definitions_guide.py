"""The guide's table "Tool definitions and provider limits", row by row, and today's caps where they differ."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from conduit_actors import ExposedTool, ToolSet
from conduit_actors.adapters import anthropic, bedrock, gemini, openai

WRITE: dict[str, Callable[[ToolSet], list[dict[str, Any]]]] = {
    "anthropic": anthropic.tools,
    "chat": lambda toolset: [one["function"] for one in openai.tools(toolset, api="chat")],
    "responses": lambda toolset: openai.tools(toolset, api="responses"),
    "gemini": gemini.tools,
    "bedrock": lambda toolset: [one["toolSpec"] for one in bedrock.tools(toolset)],
}
CAPS = {"anthropic": 4096, "chat": 1024, "responses": 4096, "gemini": 4096, "bedrock": 4096}
KEYS = {
    "anthropic": {"name", "description", "input_schema"},
    "chat": {"name", "description", "parameters", "strict"},
    "responses": {"type", "name", "description", "parameters", "strict"},
    "gemini": {"name", "description", "parametersJsonSchema"},
    "bedrock": {"name", "description", "inputSchema"},
}


def offer(*descriptions: str | None) -> ToolSet:
    return ToolSet(
        ExposedTool(name=f"s__t{9 - i}", server_id="s", tool=f"t{i}", description=text)
        for i, text in enumerate(descriptions)
    )


@pytest.mark.parametrize("provider", WRITE)
def test_shape_and_the_tool_sets_order(provider: str) -> None:
    made = WRITE[provider](offer("a", "b", "c"))
    assert [one["name"] for one in made] == ["s__t9", "s__t8", "s__t7"]
    assert all(one.keys() == KEYS[provider] for one in made)


@pytest.mark.parametrize("provider", WRITE)
def test_descriptions_are_capped_and_invisible_characters_removed(provider: str) -> None:
    made = WRITE[provider](offer("a\u200bb\U000e0041c", "x" * 10_000))
    assert made[0]["description"] == "abc"
    assert len(made[1]["description"]) == CAPS[provider]


@pytest.mark.parametrize("provider", WRITE)
def test_a_tool_without_a_description(provider: str) -> None:
    (made,) = WRITE[provider](offer(None))
    if provider == "gemini":
        assert made["description"] == ""
    else:
        assert "description" not in made
