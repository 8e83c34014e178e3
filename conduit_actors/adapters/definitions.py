"""What the provider modules share when they write tool definitions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from conduit_actors.adapters.schemas.nulls import Path
from conduit_actors.media import visible
from conduit_actors.toolset import ExcludedTool, ExposedTool, ToolSet

Strict: TypeAlias = Literal["auto"] | bool

DESCRIPTION_CHARS = 4_096
"""The guide's cap of 4 KiB on a description; providers that document less have their own."""


@dataclass(frozen=True, slots=True)
class Fallback:
    """A tool that could not be made strict and is offered without."""

    name: str
    reason: str
    path: tuple[str | int, ...] = ()


class Definitions(list[dict[str, Any]]):
    """A list of tool definitions, with a report of how it was made.

    Attributes:
        null_paths: exposed name -> where strict mode has the model send null for "left out".
        fallbacks: tools that are offered without strict mode, and why.
        excluded: tools that the provider would refuse the whole request for, and why.
        changes: exposed name -> what was changed in its schema, in words.
    """

    def __init__(self, definitions: Iterable[dict[str, Any]] = ()) -> None:
        super().__init__(definitions)
        self.null_paths: dict[str, tuple[Path, ...]] = {}
        self.fallbacks: list[Fallback] = []
        self.excluded: list[ExcludedTool] = []
        self.changes: dict[str, tuple[str, ...]] = {}

    def exclude(self, tool: ExposedTool, reason: str) -> None:
        """Note a tool that is left out."""
        self.excluded.append(ExcludedTool(tool.server_id, tool.tool, reason))

    def changed(self, tool: ExposedTool, changes: Sequence[str]) -> None:
        """Note what was changed in a tool's schema."""
        if changes:
            self.changes[tool.name] = tuple(changes)


def description(tool: ExposedTool, limit: int, note: str = "") -> str:
    """The description that a model gets: what a person would see of it, with a note, cut to `limit` characters."""
    text = visible(tool.description or "").strip()
    if note:
        text = f"{text}\n\n{note}".strip()
    return text if len(text) <= limit else text[: limit - 3].rstrip() + "..."


def prefixed(toolset: ToolSet, prefix: str) -> ToolSet:
    """The same tools with a prefix to each name; names that get too long are cut with a hash.

    Raises:
        ValueError: two names would be the same.
    """
    from conduit_actors.names import MAX_NAME_CHARS, sanitise, with_hash

    tools: list[ExposedTool] = []
    for tool in toolset:
        name = sanitise(prefix + tool.name)
        if len(name) > MAX_NAME_CHARS:
            name = with_hash(name, tool.server_id, tool.tool)
        tools.append(replace(tool, name=name))
    return ToolSet(tools, excluded=toolset.excluded, namespaced=toolset.namespaced, server_info=toolset.server_info)


def with_description(definition: dict[str, Any], text: str) -> dict[str, Any]:
    """The definition with a description, or without the key when there is none."""
    return {**definition, "description": text} if text else definition
