"""The guide's section on OpenAI's strict mode, row by row."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from conduit_actors.adapters import openai
from conduit_actors.adapters.schemas.strict import FORMATS, strict_schema
from conduit_actors.errors import UnsupportedSchema
from schema_material import check_strict, nested, obj


def refused(schema: Any) -> UnsupportedSchema:
    with pytest.raises(UnsupportedSchema) as caught:
        strict_schema(schema)
    return caught.value


def test_the_guides_example() -> None:
    schema = obj("q", q={"type": "string"}, limit={"type": "integer"})
    before = copy.deepcopy(schema)
    strict = openai.strict_schema(schema)
    assert strict.schema["properties"]["limit"] == {"type": ["integer", "null"]}
    assert strict.null_paths == (("limit",),)
    assert schema == before


@pytest.mark.parametrize(
    "root",
    [
        {"type": "string"},
        {"type": ["object", "null"], "properties": {}},
        {"type": "object", "anyOf": [{"type": "object"}]},
        {},
        True,
        [],
        None,
        5,
    ],
)
def test_the_root_must_be_an_object_and_no_union(root: Any) -> None:
    refused(root)


def test_every_object_is_closed_and_requires_all_its_properties() -> None:
    inner = obj("x", x={"type": "string"}, y={"type": "string"})
    schema = obj(
        plain=inner, listed={"type": "array", "items": inner}, either={"anyOf": [inner, {"type": "string"}]}
    ) | {"$defs": {"D": inner}}
    schema["properties"]["referred"] = {"$ref": "#/$defs/D"}
    check_strict(strict_schema(schema).schema)


def test_an_optional_property_becomes_nullable_in_each_way() -> None:
    null = {"type": "null"}
    schema = obj(
        plain={"type": "string"},
        listed={"type": ["string", "integer"]},
        enum={"type": "string", "enum": ["a"]},
        const={"const": "x"},
        union={"anyOf": [{"type": "string"}, {"type": "integer"}]},
        ref={"$ref": "#/$defs/D"},
        already={"type": ["string", "null"]},
        vendor={"type": "string", "nullable": True},
    ) | {"$defs": {"D": {"type": "string"}}}
    strict = strict_schema(schema)
    found = strict.schema["properties"]
    assert found["plain"]["type"] == ["string", "null"]
    assert found["listed"]["type"] == ["string", "integer", "null"]
    assert found["enum"] == {"type": ["string", "null"], "enum": ["a", None]}
    assert found["const"] == {"anyOf": [{"type": "string", "const": "x"}, null]}
    assert found["union"]["anyOf"][-1] == null
    assert found["ref"] == {"anyOf": [{"$ref": "#/$defs/D"}, null]}
    assert found["already"]["type"] == ["string", "null"]
    assert found["vendor"]["type"] == ["string", "null"]
    assert {path[0] for path in strict.null_paths} == found.keys() - {"already"}


KEPT = {
    "pattern": ("string", "^a"),
    "minLength": ("string", 1),
    "maxLength": ("string", 9),
    "multipleOf": ("number", 2),
    "minimum": ("number", 1),
    "maximum": ("number", 9),
    "exclusiveMinimum": ("number", 0),
    "exclusiveMaximum": ("number", 10),
    "title": ("string", "T"),
    "description": ("string", "D"),
    "enum": ("string", ["a", "b"]),
    "const": ("string", "a"),
}


@pytest.mark.parametrize("keyword", KEPT)
def test_kept(keyword: str) -> None:
    kind, value = KEPT[keyword]
    assert strict_schema(obj("a", a={"type": kind, keyword: value})).schema["properties"]["a"][keyword] == value


def test_kept_on_arrays() -> None:
    array = {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 3}
    assert strict_schema(obj("a", a=array)).schema["properties"]["a"] == array


@pytest.mark.parametrize("name", ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"])
def test_kept_formats(name: str) -> None:
    text = {"type": "string", "format": name}
    assert strict_schema(obj("a", a=text)).schema["properties"]["a"] == text


def test_no_other_format_is_kept() -> None:
    assert len(FORMATS) == 9
    converted = strict_schema(obj("a", a={"type": "string", "format": "uri"})).schema
    assert converted["properties"]["a"] == {"type": "string"}


@pytest.mark.parametrize("section", ["$defs", "definitions"])
def test_kept_local_references(section: str) -> None:
    schema = obj("a", a={"$ref": f"#/{section}/D"}) | {section: {"D": {"type": "string"}, "unused": {"not": {}}}}
    strict = strict_schema(schema)
    assert strict.schema["properties"]["a"] == {"$ref": f"#/{section}/D"}
    assert strict.schema[section] == {"D": {"type": "string"}}


UNSUPPORTED: dict[str, Any] = {
    "allOf": [{"type": "string"}, {"minLength": 1}],
    "not": {},
    "oneOf": [{"type": "string"}, {"type": "string", "minLength": 1}],
    "if": {},
    "then": {},
    "else": {},
    "dependentRequired": {},
    "dependentSchemas": {},
    "dependencies": {},
    "patternProperties": {},
    "unevaluatedProperties": False,
    "unevaluatedItems": False,
    "propertyNames": {},
    "prefixItems": [],
    "contains": {},
    "minContains": 1,
    "maxContains": 1,
    "$dynamicRef": "#x",
    "$recursiveRef": "#",
}


@pytest.mark.parametrize("keyword", UNSUPPORTED)
def test_unsupported_keywords_name_themselves_and_their_path(keyword: str) -> None:
    error = refused(obj(a={"type": "array", "items": {"type": "string", keyword: UNSUPPORTED[keyword]}}))
    assert error.reason == keyword
    assert error.path == ("properties", "a", "items", keyword)


@pytest.mark.parametrize(
    ("schema", "reason", "path"),
    [
        ({"type": "object"}, "open map", ()),
        ({"type": "object", "properties": {}}, "open map", ()),
        ({"type": "object", "additionalProperties": True}, "open map", ("additionalProperties",)),
        ({"type": "object", "additionalProperties": {"type": "string"}}, "open map", ("additionalProperties",)),
        (obj(x={"type": "string"}) | {"additionalProperties": {}}, "open map", ("additionalProperties",)),
        ({"type": "array"}, "array without items", ()),
        ({"type": "array", "items": {}}, "no type", ("items",)),
        ({"type": "array", "items": True}, "array without items", ("items",)),
        ({"description": "anything"}, "no type", ()),
        ({"type": "text"}, "unknown type", ("type",)),
        (True, "boolean schema", ()),
        ({"$ref": "https://example.com/x"}, "non-local $ref", ("$ref",)),
        ({"$ref": "#/$defs/nowhere"}, "$ref that cannot be resolved", ("$ref",)),
        ({"type": "string", "enum": []}, "enum without a value that fits its type", ("enum",)),
        (obj("y", x={"type": "string"}), "required property 'y' is not defined", ("required",)),
    ],
)
def test_unsupported_shapes(schema: Any, reason: str, path: tuple[str, ...]) -> None:
    error = refused(obj(a=schema))
    assert error.reason == reason
    assert error.path == ("properties", "a", *path)


@pytest.mark.parametrize(
    "keyword", ["default", "examples", "uniqueItems", "minProperties", "contentMediaType", "x-vendor"]
)
def test_dropped(keyword: str) -> None:
    assert keyword not in strict_schema(obj(a={"type": "string", keyword: 1})).schema["properties"]["a"]


# Limits


def test_limit_of_5000_properties() -> None:
    strict_schema(obj(**{f"p{n}": {"type": "string"} for n in range(5_000)}))
    assert "5000 properties" in refused(obj(**{f"p{n}": {"type": "string"} for n in range(5_001)})).reason


def test_limit_of_10_levels() -> None:
    strict_schema(nested(9))
    assert "10 levels" in refused(nested(10)).reason


def test_limit_of_120000_characters_of_names_and_enum_values() -> None:
    strict_schema(obj("k" * 60_000, "j" * 60_000, **{"k" * 60_000: {"type": "string"}, "j" * 60_000: {"type": "null"}}))
    long = obj(**{"k" * 60_000: {"type": "string"}, "j" * 60_000: {"type": "string", "enum": ["x"]}})
    assert "120000 characters" in refused(long).reason


def test_limit_of_1000_enum_values() -> None:
    strict_schema(obj("a", a={"type": "integer", "enum": list(range(1_000))}))
    assert "1000 enum values" in refused(obj("a", a={"type": "integer", "enum": list(range(1_001))})).reason
    halves = {name: {"type": "integer", "enum": list(range(501))} for name in ("a", "b")}
    assert "1000 enum values" in refused(obj("a", "b", **halves)).reason


def test_limit_of_15000_characters_of_a_large_enum() -> None:
    strict_schema(obj("a", a={"type": "string", "enum": [f"{n:060}" for n in range(250)]}))
    strict_schema(obj("a", a={"type": "string", "enum": [f"{n:0100}" for n in range(250)]}))
    error = refused(obj("a", a={"type": "string", "enum": [f"{n:060}" for n in range(251)]}))
    assert "15000 characters" in error.reason
    assert error.path == ("properties", "a", "enum")
