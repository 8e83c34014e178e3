"""OpenAI's strict subset: a compiler from JSON Schema that either keeps the meaning or says what stands in the way.

The rules are the guide's, the limits OpenAI's (see `limits`). Where nothing is lost it goes beyond the guide: recursion
with optional properties is kept, a pointer into the body becomes a definition, a ``oneOf`` of branches that exclude
each other becomes ``anyOf``, an ``allOf`` of one is inlined, what stands beside a union is moved into its branches, a
``$ref`` with a description becomes an ``anyOf`` of one, and a missing type is taken from ``enum`` or ``const`` values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from conduit_actors.adapters.schemas.combine import (
    COUNTS,
    NUMBERS,
    TEXTS,
    Schema,
    inline_all_of,
    inline_reference,
    union_branches,
)
from conduit_actors.adapters.schemas.keywords import is_regex
from conduit_actors.adapters.schemas.limits import check_limits
from conduit_actors.adapters.schemas.null_paths import Path, find_null_paths
from conduit_actors.adapters.schemas.pointers import (
    DEFINITIONS,
    Where,
    accepts_null,
    cleaned,
    existing_path,
    listed,
    lookup,
    mapping,
    names_in,
    pointer_parts,
    resolve,
    sendable,
    type_of_value,
    types_of,
)
from conduit_actors.adapters.schemas.words import readable
from conduit_actors.errors import UnsupportedSchema

FORMATS = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"})

UNSUPPORTED = (
    *("not", "if", "then", "else", "dependentRequired", "dependentSchemas", "dependencies"),
    *("patternProperties", "unevaluatedProperties", "unevaluatedItems", "propertyNames"),
    *("prefixItems", "contains", "minContains", "maxContains", "$dynamicRef", "$recursiveRef"),
)

_MAX_NODE_DEPTH = 60
_MAX_NODES = 50_000
_NOT_TAKEN = re.compile(r"\(\?<?[=!]|\\[1-9]|\\k<")
"""Regex look-around and back-references, which engines for constrained decoding do not have."""


@dataclass(frozen=True, slots=True)
class StrictSchema:
    """A converted schema, and where the model must send null for "left out".

    Attributes:
        null_paths: property paths into the arguments; ``*`` stands for every item of a list, ``**`` for any number of
            steps (recursive schemas). See `nulls.strip_nulls`.
    """

    schema: dict[str, Any]
    null_paths: tuple[Path, ...]


def strict_schema(schema: object) -> StrictSchema:
    """Convert a tool's input schema to OpenAI's strict subset. Ends on any JSON value, and never changes it.

    Raises:
        UnsupportedSchema: with the reason, and the path from the root of the schema.
    """
    if not isinstance(schema, Mapping):
        raise UnsupportedSchema("not an object schema")
    root = readable(cast("Schema", schema))
    try:
        body = root_body(root)
        converted = _Compiler(root).compile(body)
        check_limits(converted)
        return StrictSchema(converted, find_null_paths(root, body))
    except UnsupportedSchema as refusal:
        raise UnsupportedSchema(refusal.reason, existing_path(root, refusal.path)) from None


def root_body(root: Schema) -> Schema:
    """The root object without its definitions; what a root ``$ref`` points to, put in its place.

    Raises:
        UnsupportedSchema: the root is a union, or not an object.
    """
    if "$ref" in root:
        target = resolve(root, root)
        if not isinstance(target, Mapping):
            raise UnsupportedSchema("$ref that cannot be resolved", ("$ref",))
        root = {**{key: root[key] for key in TEXTS if key in root}, **cast("Schema", target)}
    for keyword in ("anyOf", "oneOf", "allOf"):
        if keyword in root:
            raise UnsupportedSchema(f"{keyword} at the root", (keyword,))
    if types_of(root) != ("object",):
        raise UnsupportedSchema("the root is not of type object", ("type",))
    body = {key: value for key, value in root.items() if key not in DEFINITIONS}
    if "properties" not in body and body.get("additionalProperties") is None:
        body["properties"] = {}
    return body


class _Compiler:
    def __init__(self, root: Schema) -> None:
        self._root = root
        self._names: dict[Where, tuple[str, str]] = {}
        self._definitions: dict[Where, dict[str, Any]] = {}
        self._nodes = 0

    def compile(self, body: Schema) -> dict[str, Any]:
        converted = self._node(body, (), 0)
        for target, definition in self._definitions.items():
            section, name = self._names[target]
            converted.setdefault(section, {})[name] = definition
        return converted

    def _node(self, node: Any, where: Where, depth: int) -> dict[str, Any]:
        if not isinstance(node, Mapping):
            reason = "boolean schema" if isinstance(node, bool) else "a schema that is not an object"
            raise UnsupportedSchema(reason, where)
        schema = cast("Schema", node)
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
            return self._node(inline_all_of(schema, where), (*where, "allOf", 0), depth + 1)
        if "oneOf" in schema or "anyOf" in schema:
            return self._union(schema, where, depth)
        return self._plain(schema, where, depth)

    # References

    def _reference(self, schema: Schema, where: Where, depth: int) -> dict[str, Any]:
        here = (*where, "$ref")
        reference = schema["$ref"]
        if not isinstance(reference, str) or not reference.startswith("#"):
            raise UnsupportedSchema("non-local $ref", here)
        if not isinstance(resolve(self._root, schema), (Mapping, bool)):
            raise UnsupportedSchema("$ref that cannot be resolved", here)
        if (joined := inline_reference(self._root, schema, where)) is not None:
            return self._node(joined, where, depth + 1)
        referred = {"$ref": self._define(reference, depth)}
        texts = _texts(schema)
        # Nothing may stand beside a $ref.
        return {"anyOf": [referred], **texts} if texts else referred

    def _define(self, reference: str, depth: int) -> str:
        """Convert what is referred to, once, to a definition, and return the reference to that."""
        target = pointer_parts(reference) if reference == "#" or reference.startswith("#/") else (reference,)
        if target not in self._names:
            section, name = self._names[target] = self._named(target)
            found = lookup(self._root, reference)
            body = root_body(self._root) if found is self._root else found
            origin: Where = target if reference.startswith("#/") else ()
            self._definitions[target] = self._node(body, origin, depth + 1)
        section, name = self._names[target]
        return f"#/{section}/{name}"

    def _named(self, target: Where) -> tuple[str, str]:
        """Section and name for a definition: its own where it is one. OpenAI knows no other pointers."""
        section, given = "$defs", "_".join(map(str, target))
        if len(target) == 2 and target[0] in DEFINITIONS:
            section, given = str(target[0]), str(target[1])
        name = clean = re.sub(r"[^A-Za-z0-9_.-]+", "_", given) or "root"
        taken = set(self._names.values())
        own = {key for key in mapping(self._root.get(section)) if key != given}
        number = 1
        while (section, name) in taken or name in own:
            number += 1
            name = f"{clean}_{number}"
        return section, name

    # Combinations

    def _union(self, schema: Schema, where: Where, depth: int) -> dict[str, Any]:
        converted: list[dict[str, Any]] = []
        for branch, here in union_branches(self._root, schema, where):
            one = self._node(branch, here, depth + 1)
            if one not in converted:
                converted.append(one)
        return {"anyOf": converted, **_texts(schema)}

    # Types

    def _plain(self, schema: Schema, where: Where, depth: int) -> dict[str, Any]:
        names = _type_names(schema, where)
        converted: dict[str, Any] = {"type": names[0] if len(names) == 1 else names}
        if "object" in names:
            converted.update(self._object(schema, where, depth))
        if "array" in names:
            if not isinstance(schema.get("items"), Mapping):
                raise UnsupportedSchema("array without items", (*where, "items"))
            converted["items"] = self._node(schema["items"], (*where, "items"), depth + 1)
        converted.update(_constraints(schema, names, where))
        return converted

    def _object(self, schema: Schema, where: Where, depth: int) -> dict[str, Any]:
        properties, extra = schema.get("properties"), schema.get("additionalProperties")
        if extra is not None and extra is not False:
            raise UnsupportedSchema("open map", (*where, "additionalProperties"))
        if properties is not None and not isinstance(properties, Mapping):
            raise UnsupportedSchema("properties that are not an object", (*where, "properties"))
        known = cast("Schema", properties or {})
        if not known and extra is None and where:
            raise UnsupportedSchema("open map", where)
        required = set(names_in(schema.get("required")))
        for name in sorted(required - known.keys()):
            raise UnsupportedSchema(f"required property {name[:80]!r} is not defined", (*where, "required"))
        converted: dict[str, Any] = {}
        for name, property_schema in known.items():
            here = (*where, "properties", name)
            if not sendable(name):
                raise UnsupportedSchema("a property name that is not Unicode text", (*where, "properties"))
            one = self._node(property_schema, here, depth + 1)
            if name not in required and not accepts_null(self._root, property_schema):
                one = _make_nullable(one)
            converted[name] = one
        return {"properties": converted, "required": list(known), "additionalProperties": False}


def _texts(schema: Schema) -> dict[str, Any]:
    return {key: cleaned(schema[key]) for key in TEXTS if isinstance(schema.get(key), str)}


def _type_names(schema: Schema, where: Where) -> list[str]:
    given = schema.get("type")
    names = list(types_of(schema))
    if given is not None and len(names) != (len(set(names_in(cast("Any", given)))) if isinstance(given, list) else 1):
        raise UnsupportedSchema("unknown type", (*where, "type"))
    if not names:
        values = [schema["const"]] if "const" in schema else listed(schema.get("enum"))
        names = list(dict.fromkeys(type_of_value(value) for value in values))
    if not names:
        raise UnsupportedSchema("no type", where)
    return names


def _constraints(schema: Schema, names: list[str], where: Where) -> dict[str, Any]:
    made = _texts(schema)
    if "const" in schema:
        _check_value(schema["const"], (*where, "const"))
        if not _fits_type(schema["const"], names):
            raise UnsupportedSchema("const that does not fit its type", (*where, "const"))
        made["const"] = schema["const"]
    if isinstance(schema.get("enum"), list):
        values = [value for value in listed(schema["enum"]) if _fits_type(value, names)]
        if not values:
            raise UnsupportedSchema("enum without a value that fits its type", (*where, "enum"))
        for value in values:
            _check_value(value, (*where, "enum"))
        made["enum"] = values
    if "integer" in names or "number" in names:
        made.update({key: schema[key] for key in NUMBERS if _is_bound(key, schema.get(key))})
    for key in COUNTS:
        wanted = "string" if key.endswith("Length") else "array"
        if wanted in names and type_of_value(value := schema.get(key)) == "integer" and cast("int", value) >= 0:
            made[key] = value
    if "string" in names:
        pattern = schema.get("pattern")
        if is_regex(pattern) and not _NOT_TAKEN.search(pattern):
            made["pattern"] = pattern
        if isinstance(schema.get("format"), str) and schema["format"] in FORMATS:
            made["format"] = schema["format"]
    return made


def _check_value(value: Any, where: Where) -> None:
    if isinstance(value, (dict, list)):
        raise UnsupportedSchema(f"{where[-1]} with an object or a list", where)
    if isinstance(value, str) and not sendable(value):
        raise UnsupportedSchema(f"{where[-1]} with a value that is not Unicode text", where)


def _fits_type(value: Any, names: list[str]) -> bool:
    kind = type_of_value(value)
    if kind == "integer":
        return "integer" in names or "number" in names
    return kind in names or (kind == "number" and value.is_integer() and "integer" in names)


def _is_bound(key: str, value: object) -> bool:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return False
    return key != "multipleOf" or value > 0


def _make_nullable(schema: dict[str, Any]) -> dict[str, Any]:
    """The converted schema with null allowed. It did not allow null before."""
    if "anyOf" in schema:
        return {**schema, "anyOf": [*schema["anyOf"], {"type": "null"}]}
    if "$ref" in schema or "const" in schema:
        inner = {key: value for key, value in schema.items() if key not in TEXTS}
        return {"anyOf": [inner, {"type": "null"}], **_texts(schema)}
    names = cast("list[str]", schema["type"] if isinstance(schema["type"], list) else [schema["type"]])
    made = {**schema, "type": [*names, *([] if "null" in names else ["null"])]}
    if "enum" in made:
        made["enum"] = [*made["enum"], None]
    return made
