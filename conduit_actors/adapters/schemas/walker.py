"""One walk over a schema that repairs what providers refuse; what differs between them is in `Rules`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from conduit_actors.adapters.schemas.keywords import is_literal, is_regex, repaired_literals
from conduit_actors.adapters.schemas.pointers import (
    DEFINITIONS,
    Where,
    listed,
    lookup,
    mapping,
    names_in,
    pointer_parts,
    resolve,
    types_of,
)
from conduit_actors.adapters.schemas.renames import KeyNames, Renames

MAX_DEPTH = 60
"""Levels of schemas; what is nested deeper is cut off. Far more than a model can use."""

MAX_NODES = 50_000
MAX_INLINED_NODES = 5_000
MAX_INLINED_TIMES = 3
"""How often a definition is put into itself where references are not allowed."""

MAX_CHANGES = 100

Finish: TypeAlias = Callable[[dict[str, Any], Callable[[str], None]], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Rules:
    """What one provider takes.

    Attributes:
        keys: what property keys must match; None: any text.
        inline: references are put in place; otherwise they lead to root ``$defs``.
        anything: a schema that any value fits.
        finish: the last word on each node, once its children are done.
        keep_conditions: ``not`` and ``if`` are taken at the root.
    """

    keys: re.Pattern[str] | None = None
    inline: bool = False
    anything: Mapping[str, Any] | None = None
    finish: Finish | None = None
    keep_conditions: bool = False


_SINGLE = ("not", "if", "then", "else", "contains", "propertyNames", "unevaluatedItems", "unevaluatedProperties")
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_MAPS = ("patternProperties", "dependentSchemas")
_BOOLEAN_MEANS = frozenset({"additionalProperties", "unevaluatedItems", "unevaluatedProperties", "items"})
_WALKED = frozenset(
    {*_SINGLE, *_LISTS, *_MAPS, "properties", "items", "additionalProperties", "required", "type", "$ref"}
)


class Walker:
    """Repairs one schema. `changes` and `renames` say what was done."""

    def __init__(self, root: Mapping[str, Any], rules: Rules) -> None:
        self._root = root
        self._rules = rules
        self._keys = KeyNames(root, rules.keys)
        self._changes: dict[str, None] = {}
        self._definitions: dict[Where, str] = {}
        self._to_do: list[tuple[str, Any]] = []
        self._inlined: dict[str, int] = {}
        self._inlined_nodes = 0
        self._nodes = 0

    @property
    def changes(self) -> tuple[str, ...]:
        """What was changed, in words, each once."""
        return tuple(self._changes)

    @property
    def renames(self) -> Renames:
        """The property keys that were renamed."""
        return self._keys.renames

    def changed(self, what: str) -> None:
        """Note a change."""
        if len(self._changes) < MAX_CHANGES:
            self._changes[what] = None

    def walk(self, root: Mapping[str, Any]) -> dict[str, Any]:
        """The repaired schema, with the definitions that it refers to."""
        made = self._node(root, 0)
        definitions: dict[str, Any] = {}
        while self._to_do:
            name, target = self._to_do.pop()
            # The root without its unions, where it is what is referred to.
            definitions[name] = self._node(root if target is self._root else target, 1)
        return {**made, "$defs": definitions} if definitions else made

    def _anything(self) -> dict[str, Any]:
        return dict(self._rules.anything or {})

    def _node(self, node: Any, depth: int) -> dict[str, Any]:
        self._nodes += 1
        if self._inlined:
            self._inlined_nodes += 1
        if not isinstance(node, Mapping):
            if node is not True:
                self.changed("a schema that is not an object was replaced")
            return self._anything()
        if depth > MAX_DEPTH or self._nodes > MAX_NODES:
            self.changed("what is nested too deep, or is too much, was cut off")
            return self._anything()
        schema = dict(cast("Mapping[str, Any]", node))
        if "$ref" in schema:
            target = self._target(schema)
            if target is not None:
                return self._referred(schema, target, depth)
        self._repair(schema, depth)
        return schema if self._rules.finish is None else self._rules.finish(schema, self.changed)

    def _repair(self, schema: dict[str, Any], depth: int) -> None:
        repaired_literals(schema, self.changed)
        self._repair_type(schema)
        for keyword in DEFINITIONS:
            if depth:
                schema.pop(keyword, None)
        self._repair_properties(schema, depth)
        self._repair_items(schema, depth)
        for keyword in list(schema):
            self._repair_keyword(schema, keyword, depth)

    # References

    def _target(self, schema: dict[str, Any]) -> Mapping[str, Any] | None:
        """What the ``$ref`` of a node leads to; a ``$ref`` that leads nowhere is taken out."""
        if resolve(self._root, schema) is not None:
            found = lookup(self._root, schema["$ref"])
            if isinstance(found, Mapping):
                return cast("Mapping[str, Any]", found)
        self.changed("a $ref that leads nowhere was left out")
        del schema["$ref"]
        return None

    def _referred(self, schema: dict[str, Any], target: Mapping[str, Any], depth: int) -> dict[str, Any]:
        reference = cast("str", schema.pop("$ref"))
        if self._rules.inline:
            return self._inline(reference, {**target, **schema}, depth)
        made: dict[str, Any] = {}
        if schema:
            self._repair(schema, depth)
            made = schema
        return {"$ref": f"#/$defs/{self._definition(reference, target)}", **made}

    def _definition(self, reference: str, target: Mapping[str, Any]) -> str:
        parts = pointer_parts(reference) if reference[1:2] in ("", "/") else (reference,)
        if parts not in self._definitions:
            given = parts[1] if len(parts) == 2 and parts[0] in DEFINITIONS else "_".join(map(str, parts))
            clean = name = re.sub(r"[^A-Za-z0-9_.-]+", "_", str(given))[:100] or "root"
            number = 1
            while name in self._definitions.values():
                number += 1
                name = f"{clean}_{number}"
            self._definitions[parts] = name
            self._to_do.append((name, target))
        return self._definitions[parts]

    def _inline(self, reference: str, joined: dict[str, Any], depth: int) -> dict[str, Any]:
        times = self._inlined.get(reference, 0)
        if times >= MAX_INLINED_TIMES or self._inlined_nodes > MAX_INLINED_NODES:
            self.changed(f"the recursion of {reference[:80]} was cut off")
            joined = {"type": types_of(joined)[0] if types_of(joined) else "object"}
        else:
            self.changed("references were put in place")
        self._inlined[reference] = times + 1
        made = self._node(joined, depth + 1)
        if times:
            self._inlined[reference] = times
        else:
            del self._inlined[reference]
        return made

    # One keyword each

    def _repair_type(self, schema: dict[str, Any]) -> None:
        if "type" not in schema:
            return
        names, given = types_of(schema), schema["type"]
        if given == list(names) and len(names) > 1:
            return
        if len(names) != (len(listed(cast("Any", given))) if isinstance(given, list) else 1):
            self.changed("an unknown type was left out")
        if names:
            schema["type"] = names[0] if len(names) == 1 else list(names)
        else:
            del schema["type"]

    def _repair_properties(self, schema: dict[str, Any], depth: int) -> None:
        given = schema.get("properties")
        required = names_in(schema.get("required"))
        if isinstance(given, Mapping):
            schema["properties"] = self._properties(cast("Mapping[str, Any]", given), required, depth)
        elif "object" in types_of(schema):
            if given is not None:
                self.changed("properties that are not an object were replaced")
            schema["properties"] = {}
        elif "properties" in schema:
            del schema["properties"]
        if "required" not in schema and not required:
            return
        known = mapping(schema.get("properties"))
        # Alone, as a branch of a union, ``required`` may speak of properties that stand further out.
        kept = [name for name in map(self._keys.name, dict.fromkeys(required)) if name in known or not known]
        if schema.get("required") != kept:
            self.changed("required was made a list of the properties that there are")
        if kept and ("properties" in schema or "type" not in schema):
            schema["required"] = kept
        else:
            schema.pop("required", None)

    def _properties(self, given: Mapping[str, Any], required: list[str], depth: int) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for name, one in given.items():
            if name == "required" and isinstance(one, list):
                # Nested one level too deep by the server.
                required.extend(names_in(cast("Any", one)))
                self.changed("required was inside properties")
                continue
            if one is False or not isinstance(one, (Mapping, bool)):
                self.changed(f"the property {name[:80]!r} has no schema and was left out")
                continue
            if isinstance(one, Mapping) and "required" in one and isinstance(one["required"], bool):
                one = {key: value for key, value in cast("Mapping[str, Any]", one).items() if key != "required"}
                if cast("Mapping[str, Any]", given[name])["required"]:
                    required.append(name)
            key = self._keys.name(name)
            if key != name:
                self.changed(f"the property {name[:80]!r} is called {key!r}")
            made[key] = self._node(one, depth + 1)
        return made

    def _repair_items(self, schema: dict[str, Any], depth: int) -> None:
        items = schema.get("items")
        if isinstance(items, list):
            # Draft-07 tuples.
            if items:
                schema["prefixItems"] = items
            items = schema["items"] = schema.get("additionalItems", True)
            self.changed("a list of items is now prefixItems")
        schema.pop("additionalItems", None)
        if items is False and "prefixItems" in schema and not self._rules.inline:
            return
        if isinstance(items, Mapping):
            schema["items"] = self._node(items, depth + 1)
        elif "array" in types_of(schema):
            if items is not True:
                self.changed("items was filled in")
            schema["items"] = self._anything()
        else:
            schema.pop("items", None)

    def _repair_keyword(self, schema: dict[str, Any], keyword: str, depth: int) -> None:
        value = schema[keyword]
        if keyword in _SINGLE or keyword == "additionalProperties":
            if isinstance(value, Mapping):
                schema[keyword] = self._node(value, depth + 1)
            elif not isinstance(value, bool):
                del schema[keyword]
                self.changed(f"{keyword} that is no schema was left out")
        elif keyword in _LISTS:
            branches = [self._node(one, depth + 1) for one in listed(value) if isinstance(one, Mapping) or one is True]
            if branches:
                schema[keyword] = branches
            else:
                del schema[keyword]
                self.changed(f"{keyword} without a schema was left out")
        elif keyword in _MAPS:
            found = {
                str(name): self._node(one, depth + 1)
                for name, one in mapping(value).items()
                if isinstance(one, Mapping) and (is_regex(name) if keyword == "patternProperties" else is_literal(name))
            }
            if len(found) < len(mapping(value)):
                self.changed(f"{keyword} with a wrong name or without a schema was left out")
            if found:
                schema[keyword] = found
            else:
                del schema[keyword]
        elif keyword == "dependencies":
            del schema[keyword]
            self.changed("dependencies was left out")
        elif keyword == "dependentRequired":
            schema[keyword] = {
                self._keys.name(name): [self._keys.name(one) for one in names_in(names)]
                for name, names in value.items()
            }
        elif keyword not in _WALKED and not (is_literal(keyword) and is_literal(value)):
            del schema[keyword]
            self.changed("a keyword whose value cannot be sent was left out")
