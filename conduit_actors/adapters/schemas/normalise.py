"""Non-strict schemas that a provider accepts: repaired where the meaning is clear, refused where it is not.

"Not strict" is not "anything goes": one bad definition makes a provider refuse the whole request. What each provider
refuses, and how sure that is, stands in docs/providers.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, cast

from conduit_actors.adapters.schemas.pointers import lookup, mapping, names_in, type_of_value, types_of
from conduit_actors.errors import UnsupportedSchema

Dialect: TypeAlias = Literal["json", "openapi"]

_MAX_DEPTH = 60
_MAX_NODES = 50_000
_MAX_INLINED = 3
"""How often a recursive definition is put into itself where references are not allowed."""

_UNIONS = ("anyOf", "oneOf", "allOf")
_ANTHROPIC_KEY = re.compile(r"[a-zA-Z0-9_.-]{1,64}\Z")
_GEMINI_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}\Z")
_GEMINI_JSON = frozenset(
    {
        *("type", "format", "title", "description", "enum", "anyOf"),
        *("items", "prefixItems", "minItems", "maxItems", "minimum", "maximum"),
        *("properties", "additionalProperties", "required"),
    }
)
_GEMINI_OPENAPI = frozenset(
    {
        *("type", "format", "title", "description", "nullable", "enum", "anyOf"),
        *("items", "minItems", "maxItems", "minimum", "maximum", "minLength", "maxLength", "pattern"),
        *("properties", "required"),
    }
)


@dataclass(frozen=True, slots=True)
class Normalised:
    """A schema that a provider accepts.

    Attributes:
        changes: what was changed, in words.
        renames: (path of an object, new key, original key); see `restore_keys`.
        note: a rule that the schema can no longer say, for the description.
    """

    schema: dict[str, Any]
    changes: tuple[str, ...] = ()
    renames: tuple[tuple[tuple[str, ...], str, str], ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class _Rules:
    """What one provider takes."""

    provider: str
    keys: re.Pattern[str] | None = None
    inline: bool = False
    single_types: bool = False
    keywords: frozenset[str] | None = None
    fill_objects: bool = True
    nullable_keyword: bool = False
    upper_types: bool = False


_OPENAI = _Rules("openai")
_ANTHROPIC = _Rules("anthropic", keys=_ANTHROPIC_KEY)
_BEDROCK = _Rules("bedrock", keys=_ANTHROPIC_KEY)
_GEMINI = _Rules("gemini", inline=True, single_types=True, keywords=_GEMINI_JSON)
_GEMINI_API = replace(_GEMINI, keys=_GEMINI_KEY, keywords=_GEMINI_OPENAPI, nullable_keyword=True, upper_types=True)


def for_openai(schema: object) -> Normalised:
    """For OpenAI with ``strict: false``: an object root without unions, ``properties`` and ``items`` everywhere."""
    return _Normaliser(schema, _OPENAI).run()


def for_anthropic(schema: object) -> Normalised:
    """For Anthropic: an object root without unions, property keys ``^[a-zA-Z0-9_.-]{1,64}$``."""
    return _Normaliser(schema, _ANTHROPIC).run()


def for_bedrock(schema: object) -> Normalised:
    """For Bedrock Converse; as for Anthropic, the strictest of its models."""
    return _Normaliser(schema, _BEDROCK).run()


def for_gemini(schema: object, dialect: Dialect = "json") -> Normalised:
    """For Gemini: ``parametersJsonSchema`` ("json") or the OpenAPI subset of ``parameters`` ("openapi").

    References are put in place, types are single, ``const`` becomes ``enum``, ``oneOf`` becomes ``anyOf``.
    """
    return _Normaliser(schema, _GEMINI if dialect == "json" else _GEMINI_API).run()


def restore_keys(arguments: Mapping[str, Any], renames: tuple[tuple[tuple[str, ...], str, str], ...]) -> dict[str, Any]:
    """Arguments with the original property keys."""
    result: Any = dict(arguments)
    # The deepest first, while the keys on the way are still the new ones.
    for path, new, old in sorted(renames, key=lambda rename: len(rename[0]), reverse=True):
        result = _rename(result, path, new, old)
    return cast("dict[str, Any]", result)


def _rename(value: Any, path: tuple[str, ...], new: str, old: str) -> Any:
    if path and path[0] == "*":
        if not isinstance(value, list):
            return value
        return [_rename(item, path[1:], new, old) for item in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    found = cast("dict[str, Any]", value)
    if not path:
        return {old if key == new else key: item for key, item in found.items()}
    if path[0] not in found:
        return found
    return {**found, path[0]: _rename(found[path[0]], path[1:], new, old)}


class _Normaliser:
    def __init__(self, schema: object, rules: _Rules) -> None:
        if not isinstance(schema, Mapping):
            raise UnsupportedSchema("not an object schema")
        self._root = cast("Mapping[str, Any]", schema)
        self._rules = rules
        self._changes: list[str] = []
        self._renames: list[tuple[tuple[str, ...], str, str]] = []
        self._notes: list[str] = []
        self._nodes = 0

    def run(self) -> Normalised:
        root = self._root_object()
        schema = self._node(root, (), 0, {}, at_root=True)
        if not self._rules.inline:
            for section in ("$defs", "definitions"):
                definitions = self._root.get(section)
                if isinstance(definitions, Mapping):
                    schema[section] = {
                        name: self._node(one, (section, str(name)), 1, {}, renaming=False)
                        for name, one in cast("Mapping[str, Any]", definitions).items()
                        if isinstance(one, Mapping)
                    }
        return Normalised(
            schema, tuple(dict.fromkeys(self._changes)), tuple(self._renames), " ".join(dict.fromkeys(self._notes))
        )

    def _changed(self, what: str) -> None:
        if len(self._changes) < 100:
            self._changes.append(what)

    # The root

    def _root_object(self) -> dict[str, Any]:
        root = {key: value for key, value in self._root.items() if key not in ("$defs", "definitions")}
        for _ in range(16):
            if not isinstance(root.get("$ref"), str):
                break
            target = lookup(self._root, cast("str", root["$ref"]))
            if not isinstance(target, Mapping):
                raise UnsupportedSchema("$ref that cannot be resolved", ("$ref",))
            self._changed("the root's $ref was put in its place")
            found = cast("Mapping[str, Any]", target)
            root = {**found, **{key: value for key, value in root.items() if key != "$ref"}}
        for keyword in _UNIONS:
            if keyword in root:
                root = self._fold(root, keyword)
        names = types_of(root)
        if "object" not in names:
            if names or "enum" in root or "const" in root:
                raise UnsupportedSchema("the root is not of type object", ("type",))
            self._changed("the root's type was set to object")
        elif root.get("type") != "object":
            self._changed("the root's type was set to object")
        root["type"] = "object"
        for keyword in ("enum", "const", "not", "$ref", "if", "then", "else"):
            if keyword in root and (self._rules.provider != "anthropic" or keyword in ("enum", "const", "$ref")):
                del root[keyword]
                self._changed(f"{keyword} at the root was left out")
        return root

    def _fold(self, root: dict[str, Any], keyword: str) -> dict[str, Any]:
        """A union at the root as one object: all properties, what every branch requires, and a note of the rule."""
        branches = root.pop(keyword)
        self._changed(f"{keyword} at the root was folded into one object")
        if not isinstance(branches, list):
            return root
        properties: dict[str, Any] = {}
        own = root.get("properties")
        if isinstance(own, Mapping):
            properties.update(cast("Mapping[str, Any]", own))
        required_sets: list[list[str]] = []
        for branch in cast("list[Any]", branches):
            resolved = self._resolved(branch)
            if not isinstance(resolved, Mapping):
                continue
            one = cast("Mapping[str, Any]", resolved)
            for name, value in mapping(one.get("properties")).items():
                known = properties.get(name)
                if known is None:
                    properties[name] = value
                elif known != value and keyword != "allOf":
                    merged: list[Any] = [known]
                    if list(mapping(known)) == ["anyOf"] and isinstance(mapping(known)["anyOf"], list):
                        merged = cast("list[Any]", mapping(known)["anyOf"])
                    properties[name] = {"anyOf": [*merged, *([] if value in merged else [value])]}
            required_sets.append(names_in(one.get("required")))
        base = names_in(root.get("required"))
        if keyword == "allOf":
            required = [*base, *(name for names in required_sets for name in names)]
        else:
            shared = set[str]()
            if required_sets:
                shared = set(required_sets[0]).intersection(*required_sets[1:])
            required = [*base, *(name for name in (required_sets[0] if required_sets else []) if name in shared)]
            groups = [" and ".join(sorted(set(names) - shared)) for names in required_sets]
            if len({group for group in groups if group}) > 1 or (any(groups) and not all(groups)):
                word = "Exactly one" if keyword == "oneOf" else "At least one"
                self._notes.append(f"{word} of these must be given: {'; or '.join(g for g in groups if g)}.")
        root["properties"] = properties
        root["required"] = list(dict.fromkeys(required))
        return root

    def _resolved(self, schema: Any) -> Any:
        for _ in range(16):
            if not isinstance(schema, Mapping) or not isinstance(cast("Mapping[str, Any]", schema).get("$ref"), str):
                return cast("Any", schema)
            schema = lookup(self._root, cast("Mapping[str, Any]", schema)["$ref"])
        return None

    # Any node

    def _node(
        self,
        node: Any,
        path: tuple[str, ...],
        depth: int,
        inlined: Mapping[str, int],
        *,
        at_root: bool = False,
        renaming: bool = True,
    ) -> dict[str, Any]:
        self._nodes += 1
        if self._nodes > _MAX_NODES:
            raise UnsupportedSchema(f"more than {_MAX_NODES} schemas", path)
        if not isinstance(node, Mapping):
            self._changed("a boolean or malformed schema was replaced")
            return self._anything()
        schema = dict(cast("Mapping[str, Any]", node))
        if depth > _MAX_DEPTH:
            self._changed(f"what is nested more than {_MAX_DEPTH} levels deep was cut off")
            return self._anything()
        if "$ref" in schema:
            referred = self._reference(schema, path, depth, inlined, renaming)
            if referred is not None:
                return referred
        self._repair_types(schema, at_root=at_root)
        self._repair_object(schema, path, depth, inlined, renaming)
        self._repair_array(schema, path, depth, inlined, renaming)
        self._repair_rest(schema, path, depth, inlined)
        return self._final(schema)

    def _anything(self) -> dict[str, Any]:
        # A provider that wants a type everywhere gets the one that can be read as any text.
        return {"type": "STRING"} if self._rules.upper_types else {}

    def _reference(
        self,
        schema: dict[str, Any],
        path: tuple[str, ...],
        depth: int,
        inlined: Mapping[str, int],
        renaming: bool,
    ) -> dict[str, Any] | None:
        reference = schema["$ref"]
        target = lookup(self._root, reference) if isinstance(reference, str) else None
        siblings = {key: schema[key] for key in ("title", "description") if isinstance(schema.get(key), str)}
        if not isinstance(target, Mapping):
            self._changed("a $ref that leads nowhere was left out")
            del schema["$ref"]
            return None
        defined = re.match(r"#/(\$defs|definitions)/[^/]+\Z", cast("str", reference)) is not None
        if not self._rules.inline and defined:
            return {"$ref": reference, **siblings}
        times = inlined.get(cast("str", reference), 0)
        if times >= _MAX_INLINED:
            self._changed(f"the recursion of {reference} was cut off")
            return {**self._final({"type": "object", "properties": {}}), **siblings}
        self._changed("references were put in place")
        return self._node(
            {**cast("Mapping[str, Any]", target), **siblings},
            path,
            depth + 1,
            {**inlined, cast("str", reference): times + 1},
            renaming=renaming,
        )

    def _repair_types(self, schema: dict[str, Any], *, at_root: bool) -> None:
        given = schema.get("type")
        if given is None:
            schema.pop("type", None)
            return
        names = types_of(schema)
        listed = cast("list[Any]", given) if isinstance(given, list) else [given]
        if len(names) != len(listed):
            self._changed("an unknown type was left out")
        if len(names) == 1:
            schema["type"] = names[0]
        elif names:
            schema["type"] = list(names)
        else:
            del schema["type"]
        if at_root:
            schema["type"] = "object"

    def _repair_object(
        self,
        schema: dict[str, Any],
        path: tuple[str, ...],
        depth: int,
        inlined: Mapping[str, int],
        renaming: bool,
    ) -> None:
        names = types_of(schema)
        properties = schema.get("properties")
        if properties is not None and not isinstance(properties, Mapping):
            self._changed("properties that are not an object were left out")
            properties = None
            del schema["properties"]
        if properties is None:
            if "object" in names and self._rules.fill_objects:
                schema["properties"] = {}
            schema.pop("required", None) if not isinstance(schema.get("required"), list) else None
        else:
            schema["properties"] = self._properties(
                cast("Mapping[str, Any]", properties), path, depth, inlined, renaming
            )
        self._repair_required(schema, path)
        extra = schema.get("additionalProperties")
        if isinstance(extra, Mapping):
            schema["additionalProperties"] = self._node(extra, (*path, "?"), depth + 1, inlined, renaming=False)
        elif extra is not None and not isinstance(extra, bool):
            del schema["additionalProperties"]

    def _properties(
        self,
        properties: Mapping[str, Any],
        path: tuple[str, ...],
        depth: int,
        inlined: Mapping[str, int],
        renaming: bool,
    ) -> dict[str, Any]:
        kept: dict[str, Any] = {}
        for name, value in properties.items():
            if value is False:
                self._changed(f"the property {name!r}, which may never be given, was left out")
                continue
            if not isinstance(value, Mapping) and value is not True:
                self._changed(f"the property {name!r} has no schema and was left out")
                continue
            key = self._key(name, properties, kept, path, renaming)
            kept[key] = self._node({} if value is True else value, (*path, key), depth + 1, inlined, renaming=renaming)
        return kept

    def _key(
        self, name: str, all_names: Mapping[str, Any], kept: Mapping[str, Any], path: tuple[str, ...], renaming: bool
    ) -> str:
        if self._rules.keys is None or self._rules.keys.match(name):
            return name
        if not renaming or "?" in path:
            raise UnsupportedSchema(f"a property key that {self._rules.provider} refuses: {name[:80]!r}", path)
        clean = re.sub(r"[^A-Za-z0-9_]", "_", name)[:56] or "_"
        clean = clean if clean[0].isalpha() or clean[0] == "_" else f"_{clean}"
        key, number = clean, 1
        while key in all_names or key in kept:
            number += 1
            key = f"{clean}_{number}"
        self._renames.append((path, key, name))
        self._changed(f"the property {name[:80]!r} is called {key!r}")
        return key

    def _repair_required(self, schema: dict[str, Any], path: tuple[str, ...]) -> None:
        if "required" not in schema:
            return
        given = schema["required"]
        if not isinstance(given, list):
            self._changed("required that is not a list was left out")
            del schema["required"]
            return
        renamed = {old: new for where, new, old in self._renames if where == path}
        names = [renamed.get(name, name) for name in cast("list[Any]", given) if isinstance(name, str)]
        known = cast("dict[str, Any]", schema.get("properties") or {})
        kept = list(dict.fromkeys(name for name in names if name in known))
        if len(kept) != len(cast("list[Any]", given)):
            self._changed("required names properties that are not defined")
        if kept:
            schema["required"] = kept
        else:
            del schema["required"]

    def _repair_array(
        self,
        schema: dict[str, Any],
        path: tuple[str, ...],
        depth: int,
        inlined: Mapping[str, int],
        renaming: bool,
    ) -> None:
        items = schema.get("items")
        if isinstance(items, Mapping):
            schema["items"] = self._node(items, (*path, "*"), depth + 1, inlined, renaming=renaming)
        elif "array" in types_of(schema):
            if isinstance(items, list):
                # Draft-07 tuples: a list of what any of the places takes.
                schema["items"] = self._node({"anyOf": items} if items else {}, (*path, "*"), depth + 1, inlined)
            else:
                schema["items"] = self._anything()
            self._changed("items was filled in")
        elif "items" in schema:
            del schema["items"]

    def _repair_rest(
        self, schema: dict[str, Any], path: tuple[str, ...], depth: int, inlined: Mapping[str, int]
    ) -> None:
        for keyword in (*_UNIONS, "prefixItems"):
            if keyword not in schema:
                continue
            branches = schema[keyword]
            good = (
                [
                    self._node(branch, path, depth + 1, inlined, renaming=False)
                    for branch in cast("list[Any]", branches)
                    if isinstance(branch, Mapping)
                ]
                if isinstance(branches, list)
                else []
            )
            if good:
                schema[keyword] = good
            else:
                del schema[keyword]
        for keyword in ("not", "if", "then", "else", "contains", "propertyNames"):
            if keyword in schema and not isinstance(schema[keyword], (Mapping, bool)):
                del schema[keyword]
        if "enum" in schema and not (isinstance(schema["enum"], list) and schema["enum"]):
            del schema["enum"]
        for keyword in ("title", "description"):
            if keyword in schema and not isinstance(schema[keyword], str):
                del schema[keyword]

    # Gemini's narrower vocabulary

    def _final(self, schema: dict[str, Any]) -> dict[str, Any]:
        rules = self._rules
        if rules.keywords is None:
            return schema
        if "const" in schema:
            schema["enum"] = [schema.pop("const")]
        for keyword in ("oneOf", "allOf"):
            if keyword not in schema:
                continue
            branches = cast("list[Any]", schema.pop(keyword))
            if keyword == "allOf":
                schema = self._merged(schema, branches)
            else:
                schema["anyOf"] = [*cast("list[Any]", schema.get("anyOf", [])), *branches]
        dropped = sorted(key for key in schema if key not in rules.keywords)
        if dropped:
            self._changed(f"left out: {', '.join(dropped)}")
        schema = {key: value for key, value in schema.items() if key in rules.keywords}
        if isinstance(schema.get("additionalProperties"), dict) and rules.nullable_keyword:
            del schema["additionalProperties"]
        schema = self._single_type(schema)
        return self._for_openapi(schema) if rules.upper_types else schema

    @staticmethod
    def _merged(schema: dict[str, Any], branches: list[Any]) -> dict[str, Any]:
        for branch in branches:
            for key, value in cast("dict[str, Any]", branch).items():
                if key == "properties":
                    schema[key] = {**cast("dict[str, Any]", schema.get(key, {})), **value}
                elif key == "required":
                    schema[key] = list(dict.fromkeys([*cast("list[Any]", schema.get(key, [])), *value]))
                else:
                    schema.setdefault(key, value)
        return schema

    def _single_type(self, schema: dict[str, Any]) -> dict[str, Any]:
        """One type per node: several become ``anyOf``, each with the keywords that belong to it."""
        enum = schema.get("enum")
        if isinstance(enum, list) and "type" not in schema:
            names = list(dict.fromkeys(type_of_value(value) for value in cast("list[Any]", enum)))
            schema["type"] = names if len(names) > 1 else names[0]
        if not isinstance(schema.get("type"), list):
            return schema
        names = cast("list[str]", schema.pop("type"))
        outer = {key: schema.pop(key) for key in ("title", "description") if key in schema}
        if self._rules.nullable_keyword and "null" in names and len(names) == 2:
            only = next(name for name in names if name != "null")
            return {**outer, **_belonging(schema, only), "type": only, "nullable": True}
        branches = [{"type": name, **_belonging(schema, name)} for name in names]
        return {**outer, "anyOf": [*branches, *cast("list[Any]", schema.get("anyOf", []))]}

    @staticmethod
    def _for_openapi(schema: dict[str, Any]) -> dict[str, Any]:
        branches = cast("list[dict[str, Any]]", schema.get("anyOf", []))
        if any(branch.get("type") == "NULL" for branch in branches):
            schema["nullable"] = True
            rest = [branch for branch in branches if branch.get("type") != "NULL"]
            if len(rest) == 1:
                schema = {**rest[0], **{key: value for key, value in schema.items() if key != "anyOf"}}
            else:
                schema["anyOf"] = rest
        if isinstance(schema.get("enum"), list):
            # Enum values are strings in that dialect, whatever the type.
            schema["enum"] = [str(value) for value in cast("list[Any]", schema["enum"]) if value is not None]
            schema["type"] = "string"
        if "type" not in schema and "anyOf" not in schema:
            schema["type"] = "object" if "properties" in schema else "string"
        if isinstance(schema.get("type"), str):
            schema["type"] = cast("str", schema["type"]).upper()
        if schema.get("type") == "OBJECT" and not schema.get("properties"):
            # An object without properties is refused.
            schema.pop("properties", None)
            schema.pop("required", None)
        return schema


def _belonging(schema: dict[str, Any], name: str) -> dict[str, Any]:
    """The keywords of a schema that say something of one type."""
    groups = {
        "object": {"properties", "required", "additionalProperties"},
        "array": {"items", "prefixItems", "minItems", "maxItems"},
        "string": {"format", "pattern", "minLength", "maxLength"},
        "number": {"minimum", "maximum", "format"},
        "integer": {"minimum", "maximum", "format"},
    }
    kept = {key: value for key, value in schema.items() if key in groups.get(name, set[str]())}
    if isinstance(schema.get("enum"), list):
        fitting = [
            value
            for value in cast("list[Any]", schema["enum"])
            if type_of_value(value) == name or (name == "number" and type_of_value(value) == "integer")
        ]
        if fitting:
            kept["enum"] = fitting
    return kept


__all__ = ["Dialect", "Normalised", "for_anthropic", "for_bedrock", "for_gemini", "for_openai", "restore_keys"]
