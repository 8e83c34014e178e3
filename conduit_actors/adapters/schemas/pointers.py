"""Local references, and questions that every converter asks of a schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

TYPES = frozenset({"string", "number", "integer", "boolean", "object", "array", "null"})

_MAX_HOPS = 32


def is_schema(value: object) -> bool:
    """Whether a value can be a schema that says something: an object. (``true`` and ``false`` say all or nothing.)"""
    return isinstance(value, Mapping)


def mapping(value: object) -> Mapping[str, Any]:
    """The value if it is a JSON object, else an empty one."""
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def names_in(value: object) -> list[str]:
    """The strings of a list, each once, in order; of anything else, none."""
    if not isinstance(value, list):
        return []
    return list(dict.fromkeys(name for name in cast("list[Any]", value) if isinstance(name, str)))


def lookup(root: Mapping[str, Any], reference: str) -> Any:
    """What a local JSON pointer points to; None if there is nothing, or it is not local."""
    if not reference.startswith("#"):
        return None
    target: Any = root
    for part in reference[1:].split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(target, Mapping):
            target = cast("Mapping[str, Any]", target).get(name)
        elif isinstance(target, list) and name.isdigit() and int(name) < len(cast("list[Any]", target)):
            target = cast("list[Any]", target)[int(name)]
        else:
            return None
    return target


def resolve(root: Mapping[str, Any], schema: Any) -> Any:
    """The schema at the end of a chain of local references; None if the chain leads nowhere or round in a circle."""
    for _ in range(_MAX_HOPS):
        if not isinstance(schema, Mapping):
            return schema
        reference = cast("Mapping[str, Any]", schema).get("$ref")
        if not isinstance(reference, str):
            return cast("Any", schema)
        schema = lookup(root, reference)
    return None


def types_of(schema: Mapping[str, Any]) -> tuple[str, ...]:
    """The known types that a schema names, in its order."""
    given = schema.get("type")
    names = [given] if isinstance(given, str) else cast("list[Any]", given) if isinstance(given, list) else []
    return tuple(dict.fromkeys(name for name in names if isinstance(name, str) and name in TYPES))


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


def nullable(root: Mapping[str, Any], schema: Any, hops: int = 8) -> bool:
    """Whether null is a valid value. In doubt it is, so that no real null is ever taken away."""
    schema = resolve(root, schema)
    if schema is True or schema is None or hops == 0:
        return True
    if not isinstance(schema, Mapping):
        return False
    node = cast("Mapping[str, Any]", schema)
    if "const" in node:
        return node["const"] is None
    if isinstance(node.get("enum"), list):
        return None in cast("list[Any]", node["enum"])
    names = types_of(node)
    if names:
        return "null" in names or node.get("nullable") is True
    for keyword in ("anyOf", "oneOf"):
        if isinstance(node.get(keyword), list):
            return any(nullable(root, branch, hops - 1) for branch in cast("list[Any]", node[keyword]))
    if isinstance(node.get("allOf"), list):
        return all(nullable(root, branch, hops - 1) for branch in cast("list[Any]", node["allOf"]))
    return not ({"properties", "items"} & node.keys())
