"""Gemini's narrower vocabularies: ``parametersJsonSchema`` (JSON Schema) and ``parameters`` (OpenAPI).

Source: google-genai 3.6.1 and reported 400s (2026-12-01); what the API does with an unknown keyword in
``parametersJsonSchema`` is not documented, so none is sent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from conduit_actors.adapters.schemas.pointers import listed, type_of_value, types_of

Changed = Callable[[str], None]

_TEXT_FORMATS = frozenset({"date-time", "date", "time"})
_OPENAPI_FORMATS = frozenset({"date-time", "enum", "int32", "int64", "float", "double"})
_COMMON = ("type", "format", "title", "description", "enum", "anyOf", "items", "minItems", "maxItems")
_JSON = frozenset(
    {
        *_COMMON,
        "minimum",
        "maximum",
        "prefixItems",
        "properties",
        "additionalProperties",
        "required",
        "propertyOrdering",
    }
)
_OPENAPI = frozenset(
    {*_COMMON, "minimum", "maximum", "minLength", "maxLength", "pattern", "properties", "required", "nullable"}
)
_OF_TYPE = {
    "object": frozenset({"properties", "required", "additionalProperties", "propertyOrdering"}),
    "array": frozenset({"items", "prefixItems", "minItems", "maxItems"}),
    "string": frozenset({"format", "pattern", "minLength", "maxLength"}),
    "number": frozenset({"minimum", "maximum", "format"}),
    "integer": frozenset({"minimum", "maximum", "format"}),
}
_SPECIFIC = frozenset[str]().union(*_OF_TYPE.values()) | {"type", "enum"}

JSON_TEXT = "A JSON object, written as text."
"""What stands for an object without named properties, which ``parameters`` refuses; a call's arguments are decoded."""


def finish_json(schema: dict[str, Any], changed: Changed) -> dict[str, Any]:
    """One node in the JSON Schema dialect; its children are done."""
    schema = _reduced(schema, _JSON, changed)
    textual = "string" in types_of(schema) or "type" not in schema
    if textual and schema.get("format") not in (None, *_TEXT_FORMATS):
        del schema["format"]
        changed("formats that Gemini does not know were left out")
    return _single(schema, {})


def finish_openapi(schema: dict[str, Any], changed: Changed) -> dict[str, Any]:
    """One node in the OpenAPI dialect; its children are done."""
    for bound, exclusive, step in (("minimum", "exclusiveMinimum", 1), ("maximum", "exclusiveMaximum", -1)):
        if isinstance(schema.get(exclusive), int) and bound not in schema and types_of(schema) == ("integer",):
            schema[bound] = schema[exclusive] + step
    if "prefixItems" in schema:
        schema["items"] = {"anyOf": schema["prefixItems"]}
    schema = _reduced(schema, _OPENAPI, changed)
    if schema.get("format") not in (None, *_OPENAPI_FORMATS):
        del schema["format"]
        changed("formats that Gemini does not know were left out")
    return _upper(_nullable(_single(schema, {"type": "STRING"})))


def _reduced(schema: dict[str, Any], known: frozenset[str], changed: Changed) -> dict[str, Any]:
    if "const" in schema:
        schema["enum"] = [schema.pop("const")]
    for branch in cast("list[dict[str, Any]]", schema.pop("allOf", [])):
        _merge(schema, branch)
    if "oneOf" in schema:
        schema["anyOf"] = [*schema.get("anyOf", []), *schema.pop("oneOf")]
    dropped = sorted(schema.keys() - known)
    if dropped:
        changed(f"left out: {', '.join(key[:40] for key in dropped[:20])}")
    return {key: value for key, value in schema.items() if key in known}


def _merge(schema: dict[str, Any], branch: dict[str, Any]) -> None:
    """Put a member of ``allOf`` into the schema, as far as one node can say both."""
    for key, value in branch.items():
        if key == "properties":
            schema[key] = {**value, **schema.get(key, {})}
        elif key == "required":
            schema[key] = list(dict.fromkeys([*schema.get(key, []), *value]))
        else:
            schema.setdefault(key, value)


def _single(schema: dict[str, Any], anything: dict[str, Any]) -> dict[str, Any]:
    """One type per node: several become ``anyOf``, each with the keywords that belong to it.

    Args:
        anything: a schema that any value fits, for an array whose type only its enum told.
    """
    values = cast("list[Any] | None", schema.get("enum"))
    names = list(types_of(schema))
    if values is not None:
        of_values = list(dict.fromkeys(type_of_value(value) for value in values))
        names = [name for name in names if name in of_values or (name == "number" and "integer" in of_values)]
        names = names or of_values
    if not names and "anyOf" not in schema:
        # Gemini refuses `items` beside anything but the type array.
        names = ["array"] if "items" in schema else ["object"] if "properties" in schema else []
    if not names:
        return {key: value for key, value in schema.items() if key not in _OF_TYPE["array"]}
    if len(names) == 1:
        return {**{key: schema[key] for key in schema if key not in _SPECIFIC}, **_typed(schema, names[0], anything)}
    outer = {key: value for key, value in schema.items() if key not in _SPECIFIC and key != "anyOf"}
    if "anyOf" in schema:
        # The branches say more than the list of types.
        return {**outer, "anyOf": schema["anyOf"]}
    return {**outer, "anyOf": [_typed(schema, name, anything) for name in names]}


def _typed(schema: dict[str, Any], name: str, anything: dict[str, Any]) -> dict[str, Any]:
    """One type, with the keywords and the enum values that belong to it. Enums are of strings and numbers only."""
    belongs = _OF_TYPE.get(name, frozenset())
    made: dict[str, Any] = {"type": name, **{key: value for key, value in schema.items() if key in belongs}}
    kinds = ("integer", "number") if name == "number" else (name,)
    if name == "array":
        made.setdefault("items", {})  # a schema of array values alone says nothing of their items
    values = [value for value in listed(schema.get("enum")) if type_of_value(value) in kinds]
    if values and name in ("string", "integer", "number"):
        made["enum"] = values
    if name == "array":
        made.setdefault("items", dict(anything))
    return made


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    """A branch of null as ``nullable``."""
    branches = cast("list[dict[str, Any]]", schema.get("anyOf", []))
    rest = [branch for branch in branches if branch.get("type") not in ("null", "NULL")]
    if len(rest) == len(branches):
        return schema
    outer = {key: value for key, value in schema.items() if key != "anyOf"}
    outer["nullable"] = True
    if len(rest) == 1:
        return {**rest[0], **outer}
    return {**outer, "anyOf": rest} if rest else {**outer, "type": "string"}


def _upper(schema: dict[str, Any]) -> dict[str, Any]:
    if "anyOf" in schema:
        # A union stands alone there; its branches have the types, in capitals by now or made here.
        outer = {key: value for key, value in schema.items() if key not in _SPECIFIC or key == "properties"}
        if "properties" not in outer:
            return {**outer, "anyOf": [_upper(branch) for branch in schema["anyOf"]]}
        del schema["anyOf"]
    kind = str(schema.get("type") or ("object" if "properties" in schema else "string")).lower()
    if kind == "object" and not schema.get("properties"):
        text = f"{schema['description']} {JSON_TEXT}" if "description" in schema else JSON_TEXT
        kept = {key: value for key, value in schema.items() if key in ("title", "nullable")}
        return {**kept, "type": "STRING", "description": text}
    if kind == "null":
        return {"type": "STRING", "nullable": True, **{k: v for k, v in schema.items() if k == "description"}}
    if kind == "array" and not schema.get("items"):
        schema["items"] = {"type": "STRING"}
    if isinstance(schema.get("enum"), list):
        # Enum values are strings there, whatever the type.
        schema["enum"] = [str(value) for value in schema["enum"]]
    belongs = _OF_TYPE.get(kind, frozenset())
    kept = {key: value for key, value in schema.items() if key not in _SPECIFIC or key in belongs or key == "enum"}
    return {**kept, "type": kind.upper()}
