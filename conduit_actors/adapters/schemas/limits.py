"""OpenAI's limits on a strict schema (structured-outputs documentation, read 2026-12-01)."""

from __future__ import annotations

from typing import Any, cast

from conduit_actors.adapters.schemas.pointers import DEFINITIONS, Where
from conduit_actors.errors import UnsupportedSchema

MAX_PROPERTIES = 5_000
MAX_OBJECT_DEPTH = 10
MAX_NAME_CHARS = 120_000
MAX_ENUM_VALUES = 1_000
LARGE_ENUM = 250
MAX_LARGE_ENUM_CHARS = 15_000


def check_limits(schema: dict[str, Any]) -> None:
    """Return if a converted schema is within the limits; the root is the first level of nesting.

    Raises:
        UnsupportedSchema: it is not.
    """
    properties = characters = enum_values = 0
    stack: list[tuple[dict[str, Any], Where, int]] = [(schema, (), 0)]
    for section in DEFINITIONS:
        definitions = cast("dict[str, dict[str, Any]]", schema.get(section, {}))
        characters += sum(map(len, definitions))
        stack.extend((one, (section, name), 0) for name, one in definitions.items())
    while stack:
        node, where, depth = stack.pop()
        if "properties" in node:
            depth += 1
            if depth > MAX_OBJECT_DEPTH:
                raise UnsupportedSchema(f"more than {MAX_OBJECT_DEPTH} levels of object nesting", where)
            known = cast("dict[str, dict[str, Any]]", node["properties"])
            properties += len(known)
            characters += sum(map(len, known))
            stack.extend((one, (*where, "properties", name), depth) for name, one in known.items())
        if "items" in node:
            stack.append((node["items"], (*where, "items"), depth))
        if "anyOf" in node:
            branches = cast("list[dict[str, Any]]", node["anyOf"])
            stack.extend((one, (*where, "anyOf", index), depth) for index, one in enumerate(branches))
        if "enum" in node:
            count, texts = _size_of_enum(node["enum"], (*where, "enum"))
            enum_values += count
            characters += texts
        if isinstance(node.get("const"), str):
            characters += len(node["const"])
    if properties > MAX_PROPERTIES:
        raise UnsupportedSchema(f"more than {MAX_PROPERTIES} properties")
    if characters > MAX_NAME_CHARS:
        raise UnsupportedSchema(f"more than {MAX_NAME_CHARS} characters of names and enum values")
    if enum_values > MAX_ENUM_VALUES:
        raise UnsupportedSchema(f"more than {MAX_ENUM_VALUES} enum values")


def _size_of_enum(values: list[Any], where: Where) -> tuple[int, int]:
    texts = sum(len(value) for value in values if isinstance(value, str))
    if len(values) > LARGE_ENUM and texts > MAX_LARGE_ENUM_CHARS:
        raise UnsupportedSchema(
            f"an enum of over {LARGE_ENUM} values with more than {MAX_LARGE_ENUM_CHARS} characters", where
        )
    return len(values), texts
