"""``allOf``, ``anyOf``, ``oneOf`` and what stands beside them or beside a ``$ref``: rewritten where nothing is lost."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeAlias, cast

from conduit_actors.adapters.schemas.pointers import (
    Where,
    listed,
    mapping,
    names_in,
    resolve,
    too_deep,
    type_of_value,
    types_of,
)
from conduit_actors.errors import UnsupportedSchema

Schema: TypeAlias = Mapping[str, Any]

TEXTS = ("title", "description")
NUMBERS = ("multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
COUNTS = ("minLength", "maxLength", "minItems", "maxItems")

_VALUES = frozenset({"enum", "const", "pattern", "format", *NUMBERS, *COUNTS})
_SHAPE = frozenset({"properties", "additionalProperties", "required", "items"})
_UNIONS = frozenset({"anyOf", "oneOf", "allOf"})
_MEANING = _VALUES | _SHAPE | _UNIONS | {"type"}


def inline_all_of(schema: Schema, where: Where) -> Schema:
    """A schema whose ``allOf`` has one member, as one schema without it.

    Raises:
        UnsupportedSchema: there are more members, or the same keyword is given in both places.
    """
    branches = listed(schema["allOf"])
    here = (*where, "allOf")
    if len(branches) != 1 or not isinstance(branches[0], Mapping):
        raise UnsupportedSchema("allOf", here)
    only = cast("Schema", branches[0])
    rest = {key: value for key, value in schema.items() if key != "allOf"}
    both = set(rest) & set(only) & _MEANING
    if both or ("$ref" in only and set(rest) & _MEANING) or _splits_object(rest, only):
        raise UnsupportedSchema("allOf", here)
    return {**only, **rest}


def inline_reference(root: Schema, schema: Schema, where: Where) -> Schema | None:
    """What a ``$ref`` with constraints beside it means, as one schema; None if nothing of weight stands beside it.

    Raises:
        UnsupportedSchema: the two cannot be joined.
    """
    beside = {key for key in schema if key in _MEANING}
    target = resolve(root, schema)
    if "type" in beside and set(types_of(schema)) == set(types_of(mapping(target))):
        beside.discard("type")
    if not beside:
        return None
    if not isinstance(target, Mapping) or beside - _VALUES or beside & set(cast("Schema", target)):
        raise UnsupportedSchema("$ref with siblings that narrow it", (*where, "$ref"))
    joined = {**cast("Schema", target), **{key: value for key, value in schema.items() if key != "$ref"}}
    if _UNIONS & joined.keys():
        raise UnsupportedSchema("$ref with siblings that narrow it", (*where, "$ref"))
    return joined


def union_branches(root: Schema, schema: Schema, where: Where) -> list[tuple[Any, Where]]:
    """The branches of an ``anyOf``, or of a ``oneOf`` whose branches exclude each other, with what stands beside it
    moved into them. Branches that nothing can fit are left out.

    Raises:
        UnsupportedSchema: it cannot be written so without a loss.
    """
    keyword = "oneOf" if "oneOf" in schema else "anyOf"
    here = (*where, keyword)
    branches = listed(schema[keyword])
    if ("oneOf" in schema and "anyOf" in schema) or not branches:
        raise UnsupportedSchema(keyword, here)
    beside = {key: value for key, value in schema.items() if key in _MEANING and key not in _UNIONS}
    if not beside:
        found = [(branch, (*here, index)) for index, branch in enumerate(branches)]
    else:
        found = [
            (joined, (*here, index))
            for index, branch in enumerate(branches)
            if (joined := _pushed_down(root, beside, branch, here)) is not None
        ]
    if not found:
        raise UnsupportedSchema(f"{keyword} that nothing can fit", here)
    if keyword == "oneOf" and not exclusive(root, [branch for branch, _ in found]):
        raise UnsupportedSchema("oneOf", here)
    return found


def _pushed_down(root: Schema, beside: Schema, branch: Any, where: Where) -> Any:
    if not isinstance(branch, Mapping):
        return branch
    inner = cast("Schema", branch)
    joined = dict(inner)
    for key, value in beside.items():
        refusal = UnsupportedSchema(f"{where[-1]} beside {key}", where)
        if key == "type":
            names = _common_types(types_of(beside), _types(root, inner))
            if not names:
                return None
            if "$ref" in inner or ("type" not in inner and ({"enum", "const"} & inner.keys())):
                if set(names) != set(_types(root, inner)):
                    raise refusal
                continue
            joined["type"] = names[0] if len(names) == 1 else names
        elif "$ref" in inner:
            raise refusal
        elif key == "required":
            joined["required"] = names_in([*names_in(value), *names_in(inner.get("required"))])
        elif key in inner:
            raise refusal
        else:
            joined[key] = value
    if _splits_object(beside, inner):
        raise UnsupportedSchema(f"{where[-1]} beside properties", where)
    return joined


def _splits_object(left: Schema, right: Schema) -> bool:
    """Whether each says a part of which properties there are; ``additionalProperties`` sees only its own side."""
    shape = {"properties", "additionalProperties"}
    return bool(shape & left.keys()) and bool(shape & right.keys())


def _types(root: Schema, schema: Schema) -> tuple[str, ...]:
    """The types of a schema; all of its values' when it names none; empty when they cannot be told."""
    target = mapping(resolve(root, schema))
    if names := types_of(target):
        return names
    values = [target["const"]] if "const" in target else listed(target.get("enum"))
    return tuple(dict.fromkeys(type_of_value(value) for value in values))


def _common_types(outer: tuple[str, ...], inner: tuple[str, ...]) -> list[str]:
    if not inner:
        return list(outer)
    common = [name for name in inner if name in outer or (name == "integer" and "number" in outer)]
    if "integer" in outer and "number" in inner and "integer" not in common:
        common.append("integer")
    return common


def exclusive(root: Schema, branches: list[Any]) -> bool:
    """Whether no value that strict mode lets through can fit two branches."""
    schemas = [mapping(resolve(root, branch)) for branch in branches]
    if len(schemas) > 200:  # the comparison is quadratic
        return False
    return all(_differ(root, left, right) for index, left in enumerate(schemas) for right in schemas[index + 1 :])


def _differ(root: Schema, left: Schema, right: Schema) -> bool:
    values = (_values(left), _values(right))
    if values[0] is not None and values[1] is not None:
        return not values[0] & values[1]
    types = (set(types_of(left)), set(types_of(right)))
    if types[0] and types[1]:
        numbers = {"integer", "number"}
        if not types[0] & types[1] and not (types[0] & numbers and types[1] & numbers):
            return True
    if types != ({"object"}, {"object"}):
        return False
    return _tagged_apart(root, left, right) or (_never_fits(left, right) and _never_fits(right, left))


def _tagged_apart(root: Schema, left: Schema, right: Schema) -> bool:
    """Whether both require one property whose values have nothing in common."""
    properties = (mapping(left.get("properties")), mapping(right.get("properties")))
    for name in set(names_in(left.get("required"))) & set(names_in(right.get("required"))):
        tags = [_values(mapping(resolve(root, one.get(name)))) for one in properties]
        if tags[0] is not None and tags[1] is not None and not tags[0] & tags[1]:
            return True
    return False


def _never_fits(value_of: Schema, other: Schema) -> bool:
    """Whether an object with the properties of the one schema and no others can never fit the other schema."""
    known, also_known = mapping(value_of.get("properties")), mapping(other.get("properties"))
    if any(name not in known for name in names_in(other.get("required"))):
        return True
    closed = other.get("additionalProperties") is False
    return closed and any(name not in also_known for name in names_in(value_of.get("required")))


def _values(schema: Schema) -> set[str] | None:
    """The only values that a schema takes, as JSON; None if there are others."""
    if "const" in schema:
        values: list[Any] = [schema["const"]]
    elif isinstance(schema.get("enum"), list):
        values = listed(schema["enum"])
    else:
        return None
    return None if too_deep(values) else {json.dumps(value, sort_keys=True) for value in values}
