"""Local references, and the questions that every converter asks of a schema."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias, cast
from urllib.parse import unquote

TYPES = frozenset({"string", "number", "integer", "boolean", "object", "array", "null"})
DEFINITIONS = ("$defs", "definitions")

MAX_LITERAL_DEPTH = 50
"""Nesting of a literal value (an enum member, a default) that is still passed on; more could not be sent as JSON."""

_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")
_SURROGATE = re.compile("[\ud800-\udfff]")
_MAX_HOPS = 32
_MAX_BRANCHES = 500

Where: TypeAlias = tuple[str | int, ...]


def mapping(value: object) -> Mapping[str, Any]:
    """The value if it is a JSON object, else an empty one."""
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def listed(value: object) -> list[Any]:
    """The value if it is a list, else an empty one."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def names_in(value: object) -> list[str]:
    """The strings of a list, each once, in order; of anything else, none."""
    return list(dict.fromkeys(name for name in listed(value) if isinstance(name, str)))


def pointer_parts(reference: str) -> Where:
    """The steps of a JSON pointer in a ``#...`` reference."""
    return tuple(unquote(part).replace("~1", "/").replace("~0", "~") for part in reference[1:].split("/")[1:])


def lookup(root: Mapping[str, Any], reference: object) -> Any:
    """What a local reference (a JSON pointer or an anchor) points to; None if there is nothing, or it is not local."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    if reference != "#" and not reference.startswith("#/"):
        return _anchored(root, unquote(reference[1:]))
    target: Any = root
    for part in pointer_parts(reference):
        if isinstance(target, Mapping):
            target = cast("Mapping[str, Any]", target).get(cast("str", part))
        elif isinstance(target, list) and _INDEX.fullmatch(str(part)) and int(part) < len(cast("list[Any]", target)):
            target = cast("list[Any]", target)[int(part)]
        else:
            return None
    return target


def _anchored(root: Mapping[str, Any], name: str) -> Any:
    for node in mappings_in(root):
        if node.get("$anchor") == name or node.get("$id") == f"#{name}":
            return node
    return None


def existing_path(root: Mapping[str, Any], path: Where) -> Where:
    """As much of a path as leads somewhere in the schema that was given."""
    target: Any = root
    for length, part in enumerate(path):
        if isinstance(target, Mapping) and part in target:
            target = cast("Mapping[str, Any]", target)[cast("str", part)]
        elif isinstance(target, list) and isinstance(part, int) and part < len(cast("list[Any]", target)):
            target = cast("list[Any]", target)[part]
        else:
            return path[:length]
    return path


def mappings_in(value: object) -> Iterator[Mapping[str, Any]]:
    """Every object in a JSON value, however deep, in no promised order."""
    stack: list[Any] = [value]
    while stack:
        one = stack.pop()
        if isinstance(one, Mapping):
            found = cast("Mapping[str, Any]", one)
            yield found
            stack.extend(found.values())
        elif isinstance(one, list):
            stack.extend(cast("list[Any]", one))


def resolve(root: Mapping[str, Any], schema: Any) -> Any:
    """The schema at the end of a chain of local references; None if the chain leads nowhere or round in a circle."""
    for _ in range(_MAX_HOPS):
        if not isinstance(schema, Mapping) or "$ref" not in schema:
            return cast("Any", schema)
        schema = lookup(root, cast("Mapping[str, Any]", schema)["$ref"])
    return None


def types_of(schema: Mapping[str, Any]) -> tuple[str, ...]:
    """The known types that a schema names, each once, in its order."""
    given = schema.get("type")
    if isinstance(given, str):
        return (given,) if given in TYPES else ()
    return tuple(name for name in names_in(given) if name in TYPES)


def type_of_value(value: object) -> str:
    """The JSON Schema type of a value."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


def accepts_null(root: Mapping[str, Any], schema: Any) -> bool:
    """Whether null is a valid value. Where that cannot be told it is, so that no real null is ever taken away."""
    return _accepts_null(root, schema, [_MAX_BRANCHES], 0)


def _accepts_null(root: Mapping[str, Any], schema: Any, budget: list[int], depth: int) -> bool:
    budget[0] -= 1
    if isinstance(schema, bool):
        return schema
    if not isinstance(schema, Mapping) or budget[0] < 0 or depth > _MAX_HOPS:
        return True
    node = cast("Mapping[str, Any]", schema)
    # Every keyword has to let null pass.
    if (names := types_of(node)) and "null" not in names:
        return False
    if "const" in node and node["const"] is not None:
        return False
    if isinstance(node.get("enum"), list) and None not in listed(node["enum"]):
        return False
    if "$ref" in node and not _accepts_null(root, lookup(root, node["$ref"]), budget, depth + 1):
        return False
    for keyword in ("anyOf", "oneOf"):
        if (branches := listed(node.get(keyword))) and not any(
            _accepts_null(root, branch, budget, depth + 1) for branch in branches
        ):
            return False
    return all(_accepts_null(root, branch, budget, depth + 1) for branch in listed(node.get("allOf")))


def too_deep(value: object, limit: int = MAX_LITERAL_DEPTH) -> bool:
    """Whether a JSON value is nested more than `limit` levels. Bounded in stack, whatever the value."""
    if not isinstance(value, (Mapping, list)):
        return False
    level: list[Any] = [value]
    for _ in range(limit):
        level = [child for one in level for child in _children(one) if isinstance(child, (Mapping, list))]
        if not level:
            return False
    return True


def _children(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else list(mapping(value).values())


def sendable(text: str) -> bool:
    """Whether a text can be sent: a lone surrogate cannot be encoded, and would fail the whole request."""
    return text.isascii() or _SURROGATE.search(text) is None


def cleaned(text: str) -> str:
    """The text with each lone surrogate replaced by U+FFFD."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)
