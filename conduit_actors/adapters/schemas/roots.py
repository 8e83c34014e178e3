"""The root of a schema as one plain object: references put in place, unions folded, their rule told in words."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, cast

from conduit_actors.adapters.schemas.pointers import (
    DEFINITIONS,
    cleaned,
    listed,
    mapping,
    names_in,
    resolve,
    types_of,
)
from conduit_actors.errors import UnsupportedSchema

_UNIONS = ("allOf", "anyOf", "oneOf")
_LEFT_OUT = ("enum", "const", "not", "if", "then", "else")
_MAX_DEPTH = 8
_MAX_NOTE_CHARS = 500

Changed = Callable[[str], None]


def root_object(schema: Mapping[str, Any], changed: Changed, *, keep_conditions: bool) -> tuple[dict[str, Any], str]:
    """The root as an object without references and unions, and the rule that this no longer says, in words.

    Args:
        keep_conditions: ``not`` and ``if`` may stay (Anthropic takes them at the root, OpenAI refuses ``not``).

    Raises:
        UnsupportedSchema: the root can be no object.
    """
    folder = _Folder(schema, changed)
    root = folder.flat(schema, 0)
    for section in DEFINITIONS:
        root.pop(section, None)
    if "type" in root and "object" not in types_of(root):
        if types_of(root):
            raise UnsupportedSchema("the root is not of type object", ("type",))
        changed("an unknown type was left out")
    if root.get("type") != "object":
        changed("the root's type was set to object")
        root["type"] = "object"
    for keyword in _LEFT_OUT:
        if keyword in root and not (keep_conditions and keyword not in ("enum", "const")):
            del root[keyword]
            changed(f"{keyword} at the root was left out")
    return root, folder.note


class _Folder:
    def __init__(self, root: Mapping[str, Any], changed: Changed) -> None:
        self._root = root
        self._changed = changed
        self.note = ""

    def flat(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        """A schema without a reference or a union at its own level."""
        flat = dict(schema)
        if "$ref" in flat:
            target = resolve(self._root, schema)
            if not isinstance(target, Mapping):
                raise UnsupportedSchema("$ref that cannot be resolved", ("$ref",))
            self._changed("the root's $ref was put in its place")
            del flat["$ref"]
            flat = {**cast("Mapping[str, Any]", target), **flat}
        for keyword in _UNIONS:
            if keyword in flat:
                branches = [
                    self.flat(cast("Mapping[str, Any]", branch), depth + 1)
                    for branch in listed(flat.pop(keyword))
                    if isinstance(branch, Mapping) and depth < _MAX_DEPTH
                ]
                self._changed(f"{keyword} at the root was folded into one object")
                self._fold(flat, keyword, branches)
        return flat

    def _fold(self, root: dict[str, Any], keyword: str, branches: list[dict[str, Any]]) -> None:
        """Put the branches' properties into the root: all of them, required if every branch requires them."""
        objects = [branch for branch in branches if "type" not in branch or "object" in types_of(branch)]
        if branches and not objects:
            raise UnsupportedSchema("the root is not of type object", (keyword,))
        properties = dict(mapping(root.get("properties")))
        joined_by = "allOf" if keyword == "allOf" else "anyOf"
        variants: dict[str, list[Any]] = {name: [one] for name, one in properties.items()}
        for branch in objects:
            for name, one in mapping(branch.get("properties")).items():
                _add(variants.setdefault(name, []), one)
        root["properties"] = {name: _joined(joined_by, found) for name, found in variants.items()}
        if variants.keys() - properties.keys():
            root.pop("additionalProperties", None)
        if not properties and keyword != "allOf" and all(one.get("additionalProperties") is False for one in objects):
            root["additionalProperties"] = False
        required = [names_in(branch.get("required")) for branch in objects]
        base = names_in(root.get("required"))
        if keyword == "allOf":
            root["required"] = names_in([*base, *(name for names in required for name in names)])
            return
        shared = set(required[0]).intersection(*required[1:]) if required else set[str]()
        root["required"] = names_in([*base, *(name for name in (required[0] if required else []) if name in shared)])
        self._tell(keyword, [_group(branch, shared) for branch in objects])

    def _tell(self, keyword: str, groups: list[str]) -> None:
        told = list(dict.fromkeys(group for group in groups if group))
        if len(told) < 2 and not (told and len(told) < len(groups)):
            return
        word = "Exactly one" if keyword == "oneOf" else "At least one"
        if not all(groups):
            word = "At most one" if keyword == "oneOf" else "Any"
        note = f"{word} of these must be given: {'; or '.join(told)}."
        if word in ("At most one", "Any"):
            note = f"{word} of these may be given: {'; or '.join(told)}."
        self.note = cleaned(f"{self.note} {note}".strip()[:_MAX_NOTE_CHARS])


def _add(variants: list[Any], one: Any) -> None:
    # By identity and by simple content: hostile schemas are too deep to be compared in full.
    if not any(known is one or _simple(known) == _simple(one) for known in variants):
        variants.append(one)


def _simple(schema: Any) -> object:
    """A schema without nested schemas as text, that can be compared; any other as itself."""
    values = list(mapping(schema).values())
    if not values or any(isinstance(item, Mapping) for item in values):
        return id(schema)
    if any(isinstance(item, (list, Mapping)) for value in values for item in listed(value)):
        return id(schema)
    return json.dumps(dict(mapping(schema)), sort_keys=True, default=str)


def _joined(keyword: str, variants: list[Any]) -> Any:
    if len(variants) == 1:
        return variants[0]
    constants = [mapping(one) for one in variants]
    if keyword == "anyOf" and all(set(one) <= {"type", "const", "title"} and "const" in one for one in constants):
        kinds = {str(one.get("type")) for one in constants}
        if len(kinds) == 1:
            made: dict[str, Any] = {key: one for key, one in constants[0].items() if key == "type"}
            return {**made, "enum": [one["const"] for one in constants]}
    return {keyword: variants}


def _group(branch: Mapping[str, Any], shared: set[str]) -> str:
    """What one branch asks for that the others do not: its required properties, and constants that name it."""
    properties = mapping(branch.get("properties"))
    parts: list[str] = []
    for name in names_in(branch.get("required")):
        constant = mapping(properties.get(name)).get("const")
        if isinstance(constant, (str, int, bool)):
            parts.append(f"{name} = {json.dumps(constant)}")
        elif name not in shared:
            parts.append(name)
    return " and ".join(parts)
