"""Anthropic's ``strict: true``: the schema it takes, and what it costs of the budgets that a whole request has.

Source: Anthropic's structured-outputs documentation and anthropic 2.14.0 (2026-12-01). Optional properties stay
optional there, so nothing has to be stripped from a call. Bounds and lengths are refused; they move into the
description, as Anthropic's own SDK does, and the server still checks them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from conduit_actors.adapters.schemas.combine import Schema, inline_all_of, union_branches
from conduit_actors.adapters.schemas.normalise import for_anthropic
from conduit_actors.adapters.schemas.pointers import Where, existing_path, listed, mapping, names_in, types_of
from conduit_actors.adapters.schemas.renames import Renames
from conduit_actors.adapters.schemas.strict import FORMATS, UNSUPPORTED
from conduit_actors.errors import UnsupportedSchema

_FORMATS = FORMATS | {"uri"}
_KEPT = ("title", "description", "default")
_BOUNDS = (
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    *("minLength", "maxLength", "maxItems", "minItems", "pattern", "format", "uniqueItems"),
)
_PATTERN_NOT_TAKEN = re.compile(r"\(\?|\\[1-9bBkpP]")
"""The documented subset has no look-around, back-references, word boundaries or Unicode classes."""


@dataclass(frozen=True, slots=True)
class AnthropicStrict:
    """A schema for ``strict: true``.

    Attributes:
        optional: optional properties in it, over all objects and definitions.
        unions: unions in it: ``anyOf`` and lists of types.
        changes: what was changed, in words.
        renames: property keys that were renamed; see `renames.restore`.
        note: a rule that the schema can no longer say, for the tool's description.
    """

    schema: dict[str, Any]
    optional: int
    unions: int
    changes: tuple[str, ...] = ()
    renames: Renames = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Budgets:
    """What one request may have (documented, 2026-12-01). Its grammar can be too large all the same: ask the API."""

    tools: int = 20
    optional: int = 24
    unions: int = 16


@dataclass(frozen=True, slots=True)
class Planned:
    """One tool of a plan: its strict schema, or why it stays without.

    Attributes:
        path: where in its schema the reason is; empty for a budget.
    """

    strict: AnthropicStrict | None
    reason: str = ""
    path: Where = ()


def strict_schema(schema: object) -> AnthropicStrict:
    """Convert a tool's input schema for ``strict: true``. Ends on any JSON value, and never changes it.

    Raises:
        UnsupportedSchema: with the reason, and the path from the root of the schema.
    """
    normal = for_anthropic(schema)
    compiler = _Compiler(normal.schema)
    try:
        made = compiler.compile()
    except UnsupportedSchema as refusal:
        where = existing_path(mapping(schema), refusal.path)
        raise UnsupportedSchema(refusal.reason, where) from None
    changes = (*normal.changes, *compiler.changes)
    return AnthropicStrict(made, compiler.optional, compiler.unions, changes, normal.renames, normal.note)


def plan(schemas: Sequence[object], budgets: Budgets | None = None) -> tuple[Planned, ...]:
    """Which tools of a request can be strict. In the order given, each that still fits is; the others say why not."""
    left = budgets or Budgets()
    tools, optional, unions = left.tools, left.optional, left.unions
    planned: list[Planned] = []
    for schema in schemas:
        try:
            made = strict_schema(schema)
        except UnsupportedSchema as refusal:
            planned.append(Planned(None, refusal.reason, refusal.path))
            continue
        if tools < 1:
            planned.append(Planned(None, f"more than {left.tools} strict tools in a request"))
        elif made.optional > optional:
            planned.append(Planned(None, f"more than {left.optional} optional parameters in a request"))
        elif made.unions > unions:
            planned.append(Planned(None, f"more than {left.unions} union parameters in a request"))
        else:
            tools, optional, unions = tools - 1, optional - made.optional, unions - made.unions
            planned.append(Planned(made))
    return tuple(planned)


class _Compiler:
    def __init__(self, root: Schema) -> None:
        self._root = root
        self._refers: dict[str, set[str]] = {}
        self._in: str = ""
        self.optional = 0
        self.unions = 0
        self.changes: dict[str, None] = {}

    def compile(self) -> dict[str, Any]:
        body = {key: value for key, value in self._root.items() if key != "$defs"}
        made = self._node(body, ())
        definitions: dict[str, Any] = {}
        for name, one in mapping(self._root.get("$defs")).items():
            self._in = f"#/$defs/{name}"
            definitions[name] = self._node(one, ("$defs", name))
        self._refuse_recursion()
        return {**made, "$defs": definitions} if definitions else made

    def _refuse_recursion(self) -> None:
        """Definitions without a way back are taken off, layer by layer; what is left goes round in a circle."""
        left = {name: set(targets) for name, targets in self._refers.items() if name}
        while left:
            free = [name for name, targets in left.items() if not targets & left.keys()]
            if not free:
                name = min(left)
                raise UnsupportedSchema("recursive $ref", ("$defs", name.removeprefix("#/$defs/")))
            for name in free:
                del left[name]

    def _node(self, schema: Schema, where: Where) -> dict[str, Any]:
        for keyword in UNSUPPORTED:
            if keyword in schema:
                raise UnsupportedSchema(keyword, (*where, keyword))
        if "$ref" in schema:
            self._refers.setdefault(self._in, set()).add(schema["$ref"])
            return {"$ref": schema["$ref"]}
        if "allOf" in schema:
            return self._node(inline_all_of(schema, where), (*where, "allOf", 0))
        if "oneOf" in schema or "anyOf" in schema:
            self.unions += 1
            branches = [self._node(branch, here) for branch, here in union_branches(self._root, schema, where)]
            return {"anyOf": branches, **{key: schema[key] for key in _KEPT if key in schema}}
        return self._plain(schema, where)

    def _plain(self, schema: Schema, where: Where) -> dict[str, Any]:
        names = types_of(schema)
        if not names and not {"enum", "const"} & schema.keys():
            raise UnsupportedSchema("no type", where)
        self.unions += len(names) > 1
        made: dict[str, Any] = {"type": schema["type"]} if names else {}
        for keyword in ("enum", "const"):
            if keyword in schema:
                values = listed(schema[keyword]) if keyword == "enum" else [schema[keyword]]
                if any(isinstance(value, (dict, list)) for value in values):
                    raise UnsupportedSchema(f"{keyword} with an object or a list", (*where, keyword))
                made[keyword] = schema[keyword]
        if "object" in names:
            made.update(self._object(schema, where))
        if "array" in names:
            made["items"] = self._node(schema.get("items", {}), (*where, "items"))
            if schema.get("minItems") in (0, 1):
                made["minItems"] = schema["minItems"]
        return {**made, **self._texts(schema, names)}

    def _object(self, schema: Schema, where: Where) -> dict[str, Any]:
        properties = mapping(schema.get("properties"))
        extra = schema.get("additionalProperties")
        if extra not in (None, False):
            raise UnsupportedSchema("open map", (*where, "additionalProperties"))
        if not properties and extra is None and where:
            raise UnsupportedSchema("open map", where)
        required = names_in(schema.get("required"))
        self.optional += len(properties.keys() - set(required))
        made: dict[str, Any] = {
            "properties": {name: self._node(one, (*where, "properties", name)) for name, one in properties.items()}
        }
        if required:
            made["required"] = required
        return {**made, "additionalProperties": False}

    def _texts(self, schema: Schema, names: tuple[str, ...]) -> dict[str, Any]:
        """Titles and descriptions, the patterns and formats that are taken, and the bounds that are not, in words."""
        made = {key: schema[key] for key in _KEPT if key in schema}
        told: list[str] = []
        for key in _BOUNDS:
            if key not in schema or (key == "minItems" and schema[key] in (0, 1)):
                continue
            value = schema[key]
            if "string" in names and _is_taken(key, value):
                made[key] = value
            else:
                told.append(f"{key}: {json.dumps(value)}")
        if told:
            self.changes["bounds were moved into the description"] = None
            made["description"] = f"{made.get('description', '')} ({'; '.join(told)})".strip()
        return made


def _is_taken(key: str, value: Any) -> bool:
    if key == "pattern":
        return not _PATTERN_NOT_TAKEN.search(value)
    return key == "format" and value in _FORMATS
