"""OpenAI's strict subset: a compiler from JSON Schema that either keeps the meaning or says what stands in the way.

The rules are the guide's; the limits are those of OpenAI's structured-outputs documentation (read 2026-12-01). Where
nothing is lost it goes beyond the guide: recursion with optional properties is kept, a pointer into the body becomes a
definition, a ``oneOf`` of branches that exclude each other becomes ``anyOf``, an ``allOf`` of one is inlined, a
``$ref`` with a description becomes an ``anyOf`` of one, and a missing type is taken from ``enum`` or ``const`` values.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from conduit_actors.adapters.schemas.nulls import ANY_DEPTH, ITEMS, Path, step
from conduit_actors.adapters.schemas.pointers import (
    lookup,
    mapping,
    names_in,
    nullable,
    resolve,
    type_of_value,
    types_of,
)
from conduit_actors.errors import UnsupportedSchema

MAX_PROPERTIES = 5_000
MAX_OBJECT_DEPTH = 10
MAX_NAME_CHARS = 120_000
MAX_ENUM_VALUES = 1_000
LARGE_ENUM = 250
MAX_LARGE_ENUM_CHARS = 15_000

FORMATS = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"})

UNSUPPORTED = (
    "not",
    "if",
    "then",
    "else",
    "dependentRequired",
    "dependentSchemas",
    "dependencies",
    "patternProperties",
    "unevaluatedProperties",
    "unevaluatedItems",
    "propertyNames",
    "prefixItems",
    "contains",
    "minContains",
    "maxContains",
    "$dynamicRef",
    "$recursiveRef",
)

_NUMBERS = ("multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_COUNTS = ("minLength", "maxLength", "minItems", "maxItems")
_TEXTS = ("title", "description")
_MAX_NODE_DEPTH = 100
_MAX_NODES = 50_000
_MAX_NULL_PATHS = 20_000
_LOOK_AROUND = ("(?=", "(?!", "(?<=", "(?<!")
_DEFINITIONS = ("$defs", "definitions")

Where = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class StrictSchema:
    """A converted schema, and where the model must send null for "left out".

    Attributes:
        null_paths: property paths into the arguments; ``*`` stands for every item of a list.
    """

    schema: dict[str, Any]
    null_paths: tuple[Path, ...]


@dataclass(slots=True)
class _Nulls:
    """Paths whose null stands for "left out", and paths whose null is a value of its own."""

    stripped: set[Path] = field(default_factory=set[Path])
    kept: set[Path] = field(default_factory=set[Path])

    def add(self, other: _Nulls, prefix: Path = ()) -> None:
        self.stripped |= {prefix + path for path in other.stripped}
        self.kept |= {prefix + path for path in other.kept}
        if len(self.stripped) + len(self.kept) > _MAX_NULL_PATHS:
            raise UnsupportedSchema(f"more than {_MAX_NULL_PATHS} optional properties")


def strict_schema(schema: object) -> StrictSchema:
    """Convert a tool's input schema to OpenAI's strict subset.

    Raises:
        UnsupportedSchema: with the reason, and the path from the root of the schema.
    """
    if not isinstance(schema, Mapping):
        raise UnsupportedSchema("not an object schema")
    root = cast("Mapping[str, Any]", schema)
    return _Compiler(root).compile()


class _Compiler:
    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._definitions: dict[str, dict[str, Any]] = {}
        self._nulls_of: dict[str, _Nulls] = {}
        self._open: list[str] = []
        self._recursive: list[tuple[str, ...]] = []
        self._nodes = 0

    def compile(self) -> StrictSchema:
        root = self._root
        if isinstance(root.get("$ref"), str):
            target = resolve(root, root)
            if not isinstance(target, Mapping):
                raise UnsupportedSchema("$ref that cannot be resolved", ("$ref",))
            merged = {**cast("Mapping[str, Any]", target)}
            root = {**merged, **{key: root[key] for key in _DEFINITIONS if key in root}}
        for keyword in ("anyOf", "oneOf", "allOf"):
            if keyword in root:
                raise UnsupportedSchema(f"{keyword} at the root", (keyword,))
        if types_of(root) != ("object",) or root.get("type") != "object":
            raise UnsupportedSchema("the root is not of type object", ("type",))
        body = {key: value for key, value in root.items() if key not in _DEFINITIONS}
        if "properties" not in body and body.get("additionalProperties") is None:
            body["properties"] = {}
        converted, nulls = self._node(body, (), 0, at_root=True)
        for circle in self._recursive:
            # In a larger circle a definition's nulls are not all known when it is used.
            if len(circle) > 1 and any(self._nulls_of[name].stripped for name in circle):
                origin = tuple(_unescaped(part) for part in circle[0][1:].split("/")[1:])
                raise UnsupportedSchema("recursive $ref with optional properties", origin)
        for reference, definition in self._definitions.items():
            section, name = _definition_name(self._name(reference))
            converted.setdefault(section, {})[name] = definition
        _check_limits(converted)
        return StrictSchema(converted, tuple(sorted(nulls.stripped)))

    def _node(self, node: Any, where: Where, depth: int, *, at_root: bool = False) -> tuple[dict[str, Any], _Nulls]:
        if not isinstance(node, Mapping):
            raise UnsupportedSchema(
                "boolean schema" if isinstance(node, bool) else "a schema that is not an object", where
            )
        schema = cast("Mapping[str, Any]", node)
        self._nodes += 1
        if self._nodes > _MAX_NODES:
            raise UnsupportedSchema(f"more than {_MAX_NODES} schemas", where)
        if depth > _MAX_NODE_DEPTH:
            raise UnsupportedSchema(f"more than {_MAX_NODE_DEPTH} nested schemas", where)
        for keyword in UNSUPPORTED:
            if keyword in schema:
                raise UnsupportedSchema(keyword, (*where, keyword))
        if "$ref" in schema:
            return self._reference(schema, where, depth)
        if "allOf" in schema:
            return self._single_all_of(schema, where, depth)
        if "oneOf" in schema or "anyOf" in schema:
            return self._union(schema, where, depth)
        return self._plain(schema, where, depth, at_root=at_root)

    # References

    def _reference(self, schema: Mapping[str, Any], where: Where, depth: int) -> tuple[dict[str, Any], _Nulls]:
        reference = schema["$ref"]
        here = (*where, "$ref")
        if not isinstance(reference, str) or not reference.startswith("#"):
            raise UnsupportedSchema("non-local $ref", here)
        nulls = self._define(reference, here, depth)
        siblings = {key: schema[key] for key in _TEXTS if isinstance(schema.get(key), str)}
        narrowing = set(schema) & {
            "type",
            "properties",
            "required",
            "items",
            "enum",
            "const",
            "anyOf",
            "oneOf",
            "allOf",
        }
        if narrowing:
            raise UnsupportedSchema("$ref with siblings that narrow it", here)
        if siblings:
            return {"anyOf": [{"$ref": self._name(reference)}], **siblings}, nulls
        return {"$ref": self._name(reference)}, nulls

    def _name(self, reference: str) -> str:
        """Where a definition stands in the converted schema. OpenAI knows definitions only, so what another pointer
        points to becomes one."""
        section, name = _definition_name(reference)
        if not section:
            section, name = "$defs", re.sub(r"[^A-Za-z0-9_]+", "_", reference).strip("_") or "root"
            taken = cast("Mapping[str, Any]", self._root.get("$defs") or {})
            while name in taken:
                name += "_"
        return f"#/{section}/{name.replace('~', '~0').replace('/', '~1')}"

    def _define(self, reference: str, where: Where, depth: int) -> _Nulls:
        """Convert a definition once, and say where it has nulls."""
        if reference in self._open:
            self._recursive.append(tuple(self._open[self._open.index(reference) :]))
            return _Nulls()
        if reference not in self._definitions:
            target = lookup(self._root, reference)
            if target is None:
                raise UnsupportedSchema("$ref that cannot be resolved", where)
            if reference == "#":
                target = {key: value for key, value in self._root.items() if key not in _DEFINITIONS}
            self._open.append(reference)
            origin = tuple(_unescaped(part) for part in reference[1:].split("/")[1:])
            converted, nulls = self._node(target, origin, depth + 1)
            self._open.pop()
            if (reference,) in self._recursive:
                nulls = _at_any_depth(nulls, where)
            self._definitions[reference] = converted
            self._nulls_of[reference] = nulls
        return self._nulls_of[reference]

    # Combinations

    def _single_all_of(self, schema: Mapping[str, Any], where: Where, depth: int) -> tuple[dict[str, Any], _Nulls]:
        branches = schema["allOf"]
        rest = {key: value for key, value in schema.items() if key != "allOf"}
        if not isinstance(branches, list) or len(cast("list[Any]", branches)) != 1:
            raise UnsupportedSchema("allOf", (*where, "allOf"))
        only = cast("list[Any]", branches)[0]
        if not isinstance(only, Mapping) or (set(rest) & set(cast("Mapping[str, Any]", only))) - {*_TEXTS, "default"}:
            raise UnsupportedSchema("allOf", (*where, "allOf"))
        return self._node({**cast("Mapping[str, Any]", only), **rest}, where, depth + 1)

    def _union(self, schema: Mapping[str, Any], where: Where, depth: int) -> tuple[dict[str, Any], _Nulls]:
        keyword = "oneOf" if "oneOf" in schema else "anyOf"
        branches = schema[keyword]
        if ("oneOf" in schema and "anyOf" in schema) or not isinstance(branches, list) or not branches:
            raise UnsupportedSchema(keyword, (*where, keyword))
        listed = cast("list[Any]", branches)
        if keyword == "oneOf" and not _exclusive(self._root, listed):
            raise UnsupportedSchema("oneOf", (*where, "oneOf"))
        beside = set(schema) & {"properties", "required", "items", "enum", "const"}
        if beside:
            raise UnsupportedSchema(f"{keyword} beside {min(beside)}", (*where, keyword))
        allowed = types_of(schema)
        nulls = _Nulls()
        converted: list[dict[str, Any]] = []
        for index, branch in enumerate(listed):
            if isinstance(branch, Mapping) and allowed and not _has_type(cast("Mapping[str, Any]", branch)):
                # A type beside the union holds for its branches.
                branch = {**cast("Mapping[str, Any]", branch), "type": schema["type"]}
            one, of_branch = self._node(branch, (*where, keyword, index), depth + 1)
            nulls.add(of_branch)
            if one not in converted:
                converted.append(one)
        if clash := nulls.stripped & nulls.kept:
            raise UnsupportedSchema(f"null means two things at {'.'.join(min(clash))}", (*where, keyword))
        return {"anyOf": converted, **_texts(schema)}, nulls

    # Types

    def _plain(
        self, schema: Mapping[str, Any], where: Where, depth: int, *, at_root: bool
    ) -> tuple[dict[str, Any], _Nulls]:
        names = list(types_of(schema))
        given = schema.get("type")
        if given is not None and (
            not names or (isinstance(given, list) and len(names) != len(cast("list[Any]", given)))
        ):
            raise UnsupportedSchema("unknown type", (*where, "type"))
        if not names:
            names = _types_from_values(schema)
        if not names:
            raise UnsupportedSchema("no type", where)
        converted: dict[str, Any] = {"type": names[0] if len(names) == 1 else names}
        nulls = _Nulls()
        if "object" in names:
            nulls.add(self._object(schema, converted, where, depth, at_root=at_root))
        if "array" in names:
            if not isinstance(schema.get("items"), Mapping):
                raise UnsupportedSchema("array without items", (*where, "items"))
            converted["items"], of_items = self._node(schema["items"], (*where, "items"), depth + 1)
            nulls.add(of_items, (ITEMS,))
        _copy_constraints(schema, converted, names)
        return converted, nulls

    def _object(
        self, schema: Mapping[str, Any], converted: dict[str, Any], where: Where, depth: int, *, at_root: bool
    ) -> _Nulls:
        properties = schema.get("properties")
        extra = schema.get("additionalProperties")
        if extra is not None and extra is not False:
            raise UnsupportedSchema("open map", (*where, "additionalProperties"))
        if properties is not None and not isinstance(properties, Mapping):
            raise UnsupportedSchema("properties that are not an object", (*where, "properties"))
        known = cast("Mapping[str, Any]", properties or {})
        if not known and extra is None and not at_root:
            raise UnsupportedSchema("open map", where)
        required = names_in(schema.get("required"))
        for name in required:
            if name not in known:
                raise UnsupportedSchema(f"required property {name[:80]!r} is not defined", (*where, "required"))
        nulls = _Nulls()
        converted["properties"] = {}
        for name, property_schema in known.items():
            here = (*where, "properties", name)
            one, of_property = self._node(property_schema, here, depth + 1)
            path = (step(name),)
            nulls.add(of_property, path)
            if nullable(self._root, property_schema):
                nulls.kept.add(path)
            elif name not in required:
                one = _make_nullable(one)
                nulls.stripped.add(path)
            converted["properties"][name] = one
        converted["required"] = list(known)
        converted["additionalProperties"] = False
        return nulls


def _definition_name(reference: str) -> tuple[str, str]:
    """("$defs", "Node") of ``#/$defs/Node``; a pair of empty strings for any other pointer."""
    parts = reference[1:].split("/")
    if len(parts) == 3 and parts[0] == "" and parts[1] in _DEFINITIONS:
        return parts[1], _unescaped(parts[2])
    return "", ""


def _at_any_depth(nulls: _Nulls, where: Where) -> _Nulls:
    """The nulls of a definition that refers to itself: the same again at any depth below it."""
    names = {path[-1] for path in nulls.stripped}
    if any(path[-1] in names for path in nulls.kept):
        raise UnsupportedSchema("recursive $ref in which null means two things", where)
    deeper = {(ANY_DEPTH, *path[-1:]) for path in nulls.stripped}
    return _Nulls(nulls.stripped | deeper, nulls.kept)


def _unescaped(part: str) -> str:
    return part.replace("~1", "/").replace("~0", "~")


def _has_type(schema: Mapping[str, Any]) -> bool:
    return bool({"type", "$ref", "anyOf", "oneOf", "allOf", "enum", "const"} & schema.keys())


def _texts(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {key: schema[key] for key in _TEXTS if isinstance(schema.get(key), str)}


def _types_from_values(schema: Mapping[str, Any]) -> list[str]:
    if "const" in schema:
        values: list[Any] = [schema["const"]]
    else:
        values = cast("list[Any]", schema.get("enum")) if isinstance(schema.get("enum"), list) else []
    names = list(dict.fromkeys(type_of_value(value) for value in values))
    return [] if {"object", "array"} & set(names) else names


def _copy_constraints(schema: Mapping[str, Any], converted: dict[str, Any], names: list[str]) -> None:
    converted.update(_texts(schema))
    if "const" in schema:
        if isinstance(schema["const"], (dict, list)):
            raise UnsupportedSchema("const that is an object or a list", ("const",))
        converted["const"] = schema["const"]
    if isinstance(schema.get("enum"), list) and schema["enum"]:
        converted["enum"] = list(cast("list[Any]", schema["enum"]))
    if {"number", "integer"} & set(names):
        for key in _NUMBERS:
            if _is_number(schema.get(key)):
                converted[key] = schema[key]
    for key in _COUNTS:
        wanted = "string" if key.endswith("Length") else "array"
        if wanted in names and isinstance(schema.get(key), int) and not isinstance(schema[key], bool):
            converted[key] = schema[key]
    if "string" in names:
        pattern = schema.get("pattern")
        if isinstance(pattern, str) and not any(part in pattern for part in _LOOK_AROUND):
            converted["pattern"] = pattern
        if schema.get("format") in FORMATS:
            converted["format"] = schema["format"]


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _make_nullable(schema: dict[str, Any]) -> dict[str, Any]:
    """The converted schema with null allowed. It did not allow null before."""
    if "anyOf" in schema:
        return {**schema, "anyOf": [*schema["anyOf"], {"type": "null"}]}
    if "$ref" in schema or "const" in schema:
        inner = {key: value for key, value in schema.items() if key not in _TEXTS}
        return {"anyOf": [inner, {"type": "null"}], **_texts(schema)}
    names = cast("list[str]", schema["type"] if isinstance(schema["type"], list) else [schema["type"]])
    made = {**schema, "type": [*names, "null"]}
    if "enum" in made:
        made["enum"] = [*made["enum"], None]
    return made


def _exclusive(root: Mapping[str, Any], branches: list[Any]) -> bool:
    """Whether no value can fit two branches: they differ in type, or in a constant of one required property."""
    resolved = [resolve(root, branch) for branch in branches]
    if not all(isinstance(branch, Mapping) for branch in resolved):
        return False
    schemas = cast("list[Mapping[str, Any]]", resolved)
    return all(_differ(root, left, right) for index, left in enumerate(schemas) for right in schemas[index + 1 :])


def _differ(root: Mapping[str, Any], left: Mapping[str, Any], right: Mapping[str, Any]) -> bool:
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
    properties = (mapping(left.get("properties")), mapping(right.get("properties")))
    for name in set(names_in(left.get("required"))) & set(names_in(right.get("required"))):
        tags = [_values(resolve(root, one.get(name))) for one in properties]
        if tags[0] is not None and tags[1] is not None and not tags[0] & tags[1]:
            return True
    return False


def _values(schema: Any) -> set[str] | None:
    """The only values that a schema takes, as JSON; None if there are others."""
    if not isinstance(schema, Mapping):
        return None
    node = cast("Mapping[str, Any]", schema)
    if "const" in node:
        return {json.dumps(node["const"], sort_keys=True)}
    if isinstance(node.get("enum"), list):
        return {json.dumps(value, sort_keys=True) for value in cast("list[Any]", node["enum"])}
    return None


def _check_limits(schema: dict[str, Any]) -> None:
    properties = characters = enum_values = 0
    stack: list[tuple[Any, Where, int]] = [(schema, (), 0)]
    while stack:
        node, where, depth = stack.pop()
        if isinstance(node, list):
            stack.extend((item, (*where, index), depth) for index, item in enumerate(cast("list[Any]", node)))
            continue
        if not isinstance(node, dict):
            continue
        found = cast("dict[str, Any]", node)
        if isinstance(found.get("properties"), dict):
            depth += 1
            if depth > MAX_OBJECT_DEPTH:
                raise UnsupportedSchema(f"more than {MAX_OBJECT_DEPTH} levels of object nesting", where)
            properties += len(found["properties"])
            characters += sum(len(name) for name in found["properties"])
        for section in _DEFINITIONS:
            if isinstance(found.get(section), dict):
                characters += sum(len(name) for name in found[section])
                stack.extend((one, (*where, section, name), 0) for name, one in found[section].items())
        if isinstance(found.get("enum"), list):
            values = cast("list[Any]", found["enum"])
            texts = sum(len(value) for value in values if isinstance(value, str))
            enum_values += len(values)
            characters += texts
            if len(values) > LARGE_ENUM and texts > MAX_LARGE_ENUM_CHARS:
                raise UnsupportedSchema(
                    f"an enum of over {LARGE_ENUM} values with more than {MAX_LARGE_ENUM_CHARS} characters",
                    (*where, "enum"),
                )
        if isinstance(found.get("const"), str):
            characters += len(found["const"])
        for name, one in cast("dict[str, Any]", found.get("properties") or {}).items():
            stack.append((one, (*where, "properties", name), depth))
        for key in ("items", "anyOf"):
            if key in found:
                stack.append((found[key], (*where, key), depth))
    if properties > MAX_PROPERTIES:
        raise UnsupportedSchema(f"more than {MAX_PROPERTIES} properties")
    if characters > MAX_NAME_CHARS:
        raise UnsupportedSchema(f"more than {MAX_NAME_CHARS} characters of names and enum values")
    if enum_values > MAX_ENUM_VALUES:
        raise UnsupportedSchema(f"more than {MAX_ENUM_VALUES} enum values")
