"""Schemas without strict mode: what each provider is known to refuse never leaves here."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, example, given, settings

from conduit_actors.adapters.schemas import normalise, output
from conduit_actors.adapters.schemas.normalise import Normalised, for_anthropic, for_bedrock, for_gemini, for_openai
from conduit_actors.adapters.schemas.renames import ANTHROPIC_KEY, GEMINI_KEY, restore
from conduit_actors.adapters.schemas.strict import strict_schema
from conduit_actors.errors import UnsupportedSchema
from schema_material import (
    HOSTILE,
    LAUGHS,
    check_anthropic,
    check_gemini_json,
    check_gemini_openapi,
    check_openai,
    check_sendable,
    deep_value,
    obj,
    real_tools,
    tool_schemas,
    wild_schemas,
)

TEXT = {"type": "string"}

Convert = Callable[[Any], Normalised]
PROVIDERS: dict[str, tuple[Convert, Callable[[Any], None]]] = {
    "openai": (for_openai, check_openai),
    "anthropic": (for_anthropic, check_anthropic),
    "bedrock": (for_bedrock, check_anthropic),
    "gemini json": (for_gemini, check_gemini_json),
    "gemini openapi": (lambda schema: for_gemini(schema, "openapi"), check_gemini_openapi),
}
JSON_SCHEMA = [name for name in PROVIDERS if name != "gemini openapi"]


def checked(schema: Any) -> None:
    """Fails where JSON Schema's meta-schema does not hold, or a regular expression is none of ECMA-262."""
    jsonschema_rs.meta.validate(schema)
    for pattern in patterns_of(schema):
        assert jsonschema_rs.is_valid({"format": "regex"}, pattern, validate_formats=True), pattern


SUBSCHEMAS = {
    *("items", "prefixItems", "contains", "additionalProperties", "propertyNames"),
    *("unevaluatedItems", "unevaluatedProperties", "allOf", "anyOf", "oneOf", "not", "if", "then", "else"),
}


def patterns_of(schema: Any) -> list[str]:
    """The regular expressions in a schema; a property may be called like a keyword."""
    if isinstance(schema, list):
        return [pattern for one in schema for pattern in patterns_of(one)]
    if not isinstance(schema, dict):
        return []
    found = [schema["pattern"]] if isinstance(schema.get("pattern"), str) else []
    for key, inner in schema.items():
        if key in ("properties", "patternProperties", "dependentSchemas", "$defs") and isinstance(inner, dict):
            found += list(inner) if key == "patternProperties" else []
            found += patterns_of(list(inner.values()))
        elif key in SUBSCHEMAS:
            found += patterns_of(inner)
    return found


@pytest.mark.parametrize("provider", PROVIDERS)
def test_every_real_tool_is_taken(provider: str) -> None:
    convert, check = PROVIDERS[provider]
    for _, schema in real_tools():
        made = convert(schema)
        check(made.schema)
        if provider in JSON_SCHEMA:
            checked(made.schema)


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_schemas_end_in_a_schema_that_is_taken_or_in_a_refusal(name: str, provider: str) -> None:
    convert, check = PROVIDERS[provider]
    try:
        made = convert(HOSTILE[name])
    except UnsupportedSchema as refusal:
        assert name == "is only a reference to itself", refusal
        return
    check(made.schema)
    assert len(json.dumps(made.schema)) < 3_000_000
    assert len(made.changes) <= 100
    if provider in JSON_SCHEMA:
        checked(made.schema)


@pytest.mark.parametrize("provider", PROVIDERS)
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(schema=wild_schemas)
@example(schema={"type": "object", "properties": {"a": {"$ref": "#a", "$anchor": "a"}}})
@example(schema={"properties": {"type": {"const": []}}})
@example(schema={"patternProperties": {"?": {}}})
@example(schema={"properties": {"type": [], "patternProperties": {"[": None}}})
@example(schema={"a": {"patternProperties": {"?": None}}})
@example(schema={"properties": {"pattern": {"default": "["}, "default": {"pattern": "a"}}})
@example(schema={"properties": {"a": {"type": "string", "pattern": "a**"}}})
@example(schema={"properties": {"a": {"type": "string", "pattern": r"^\p{L}+$"}}})
@example(schema={"properties": {"properties": {}, "type": {"items": {}}}})
@example(schema={"properties": {"type": {"type": [], "required": ["object"]}}})
def test_any_json_value_is_repaired_or_refused_and_never_changed(provider: str, schema: Any) -> None:
    convert, check = PROVIDERS[provider]
    before = copy.deepcopy(schema)
    try:
        made = convert(schema)
    except UnsupportedSchema as refusal:
        assert refusal.reason
    else:
        check(made.schema)
        if provider in JSON_SCHEMA:
            checked(made.schema)
    try:
        strict_schema(schema)
    except UnsupportedSchema as refusal:
        assert refusal.reason
    assert schema == before


@pytest.mark.parametrize("provider", PROVIDERS)
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(schema=tool_schemas())
def test_good_schemas_are_taken_and_rendered_the_same_each_time(provider: str, schema: Any) -> None:
    convert, check = PROVIDERS[provider]
    made = convert(schema)
    check(made.schema)
    assert json.dumps(made.schema) == json.dumps(convert(copy.deepcopy(schema)).schema)


# The root (reported refusals of Anthropic and OpenAI)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_root_reference_is_put_in_place(provider: str) -> None:
    schema = {"$ref": "#/$defs/Args", "$defs": {"Args": obj("q", q=TEXT)}}
    made = PROVIDERS[provider][0](schema)
    assert list(made.schema["properties"]) == ["q"]
    assert made.schema["required"] == ["q"]
    assert any("$ref" in change for change in made.changes)


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(("keyword", "word"), [("oneOf", "Exactly one"), ("anyOf", "At least one")])
def test_a_root_union_is_folded_and_its_rule_becomes_a_note(provider: str, keyword: str, word: str) -> None:
    schema = {**obj(id=TEXT, url=TEXT), keyword: [{"required": ["id"]}, {"required": ["url"]}]}
    made = PROVIDERS[provider][0](schema)
    assert set(made.schema["properties"]) == {"id", "url"}
    assert "required" not in made.schema
    assert made.note == f"{word} of these must be given: id; or url."


def test_a_root_union_of_tagged_objects_keeps_all_properties_and_what_all_require() -> None:
    branches = [obj("kind", name, kind={"const": name}, **{name: TEXT}) for name in ("file", "link")]
    made = for_anthropic({"type": "object", "oneOf": branches})
    assert made.schema["required"] == ["kind"]
    assert made.schema["properties"]["kind"] == {"enum": ["file", "link"]}
    assert made.note == 'Exactly one of these must be given: kind = "file" and file; or kind = "link" and link.'


def test_root_all_of_is_merged() -> None:
    made = for_openai({"allOf": [obj("a", a=TEXT), obj("b", b=TEXT)]})
    assert made.schema["required"] == ["a", "b"]
    assert not made.note


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("root", [{"type": "string"}, {"type": ["array", "null"]}, {"anyOf": [TEXT]}, [], "x", 5])
def test_a_root_that_can_be_no_object_is_refused(provider: str, root: Any) -> None:
    with pytest.raises(UnsupportedSchema):
        PROVIDERS[provider][0](root)


@pytest.mark.parametrize("root", [{}, True, None, {"properties": {}}, {"type": ["object", "null"]}])
def test_a_root_that_can_be_an_object_is_one(root: Any) -> None:
    assert for_openai(root).schema == {"type": "object", "properties": {}}


def test_openai_takes_no_not_and_no_enum_at_the_root_and_anthropic_takes_not() -> None:
    schema = obj() | {"not": {"required": ["a"]}, "enum": [{}]}
    assert not {"not", "enum"} & for_openai(schema).schema.keys()
    assert "not" in for_anthropic(schema).schema


# Repairs


def test_properties_and_items_are_filled_in() -> None:
    made = for_openai(obj(a={"type": "array"}, b={"type": "object"})).schema["properties"]
    assert made["a"]["items"] == {}
    assert made["b"]["properties"] == {}


def test_required_is_repaired() -> None:
    nested = {"type": "object", "properties": {"coin": TEXT, "required": ["coin"]}}
    assert for_openai(nested).schema == obj("coin", coin=TEXT)
    assert "required" not in for_openai(obj(a=TEXT) | {"required": None}).schema
    assert for_openai(obj(a=TEXT) | {"required": ["a", "a", "ghost", 5]}).schema["required"] == ["a"]
    draft_3 = for_openai(obj(a=TEXT | {"required": True}, b=TEXT | {"required": False})).schema
    assert draft_3 == obj("a", a=TEXT, b=TEXT)


def test_boolean_schemas_become_objects_or_go() -> None:
    made = for_anthropic(obj(a=True, b=False, c={"type": "array", "items": True})).schema["properties"]
    assert made == {"a": {}, "c": {"type": "array", "items": {}}}


def test_types_are_repaired() -> None:
    made = for_openai(obj(a={"type": "text"}, b={"type": ["string", "any"]}, c={"type": ["null"]})).schema["properties"]
    assert made == {"a": {}, "b": TEXT, "c": {"type": "null"}}


def test_old_drafts_become_2020_12() -> None:
    pair = {"type": "array", "items": [TEXT, {"type": "integer"}], "additionalItems": False}
    made = for_anthropic(obj(pair=pair, n={"type": "integer", "minimum": 3, "exclusiveMinimum": True}))
    assert made.schema["properties"]["pair"] == {"type": "array", "items": False, "prefixItems": pair["items"]}
    assert made.schema["properties"]["n"] == {"type": "integer", "exclusiveMinimum": 3}


def test_identities_go_and_vendors_keywords_stay() -> None:
    schema = obj(a=TEXT | {"$id": "x", "x-vendor": 1, "default": "d"}) | {
        "$schema": "http://json-schema.org/draft-07/schema#"
    }
    assert for_openai(schema).schema == obj(a=TEXT | {"x-vendor": 1, "default": "d"})


def test_references_lead_to_definitions_that_are_there() -> None:
    schema = obj(
        a={"$ref": "#/definitions/A%20b"},
        b=TEXT,
        c={"$ref": "#/properties/b", "description": "d"},
        d={"$ref": "#/nowhere"},
    ) | {"definitions": {"A b": TEXT, "unused": TEXT}}
    made = for_openai(schema).schema
    assert made["properties"]["a"] == {"$ref": "#/$defs/A_b"}
    assert made["properties"]["c"] == {"$ref": "#/$defs/properties_b", "description": "d"}
    assert made["properties"]["d"] == {}
    assert made["$defs"] == {"A_b": TEXT, "properties_b": TEXT}


def test_what_cannot_be_encoded_does_not_leave() -> None:
    deep = {
        "type": "string",
        "default": deep_value(5_000),
        "x": float("nan"),
        "enum": ["\ud800", "a"],
        "title": "\ud800",
    }
    made = for_openai(obj(a=deep)).schema
    assert made["properties"]["a"] == {"type": "string", "enum": ["a"], "title": "\ufffd"}


def test_changes_are_told_in_words_and_a_good_schema_has_none() -> None:
    assert for_openai(obj("a", a=TEXT)).changes == ()
    assert all(isinstance(change, str) for change in for_openai(HOSTILE["keywords of the wrong kind"]).changes)


# Keys


def test_keys_come_back_through_objects_lists_unions_references_and_recursion() -> None:
    node = obj(**{"größe": TEXT, "kinder": {"type": "array", "items": {"$ref": "#/$defs/N"}}})
    schema = obj(**{"a b": {"anyOf": [node, TEXT]}, "": {"$ref": "#/$defs/N"}, "ok": TEXT}) | {"$defs": {"N": node}}
    made = for_anthropic(schema)
    check_anthropic(made.schema)
    new = {old: key for key, old in made.renames}
    assert set(new) == {"größe", "a b", ""}
    leaf = {new["größe"]: "x"}
    sent = {new["a b"]: leaf | {"kinder": [leaf]}, new[""]: leaf, "ok": "y"}
    before = copy.deepcopy(sent)
    assert restore(sent, made.renames) == {
        "a b": {"größe": "x", "kinder": [{"größe": "x"}]},
        "": {"größe": "x"},
        "ok": "y",
    }
    assert sent == before


def test_required_speaks_of_the_new_keys() -> None:
    made = for_anthropic(obj("größe", größe=TEXT))
    assert made.schema["required"] == list(made.schema["properties"])


def test_new_keys_never_meet_others() -> None:
    first = for_anthropic(obj(**{"a b": TEXT})).renames[0][0]
    made = for_anthropic(obj(**{"a b": TEXT, "a?b": TEXT, "a_b": TEXT, first: TEXT, "x" * 65: TEXT}))
    assert len(made.schema["properties"]) == 5
    assert all(ANTHROPIC_KEY.match(name) for name in made.schema["properties"])
    old = restore(dict.fromkeys(made.schema["properties"], 1), made.renames)
    assert set(old) == {"a b", "a?b", "a_b", first, "x" * 65}


def test_keys_that_a_provider_takes_are_not_touched() -> None:
    schema = obj(**{"größe": TEXT, "a.b-c": TEXT})
    assert for_openai(schema).renames == ()
    assert [old for _, old in for_anthropic(schema).renames] == ["größe"]
    assert {old for _, old in for_gemini(schema, "openapi").renames} == {"größe", "a.b-c"}
    assert all(GEMINI_KEY.match(name) for name in for_gemini(schema, "openapi").schema["properties"])


# Gemini


def both(schema: Any) -> tuple[Any, Any]:
    """A property's schema in the JSON and in the OpenAPI dialect."""
    given = obj(a=schema)
    return for_gemini(given).schema["properties"]["a"], for_gemini(given, "openapi").schema["properties"]["a"]


def test_gemini_a_nullable_array_keeps_items_beside_array() -> None:
    in_json, in_openapi = both({"type": ["array", "null"], "items": TEXT, "description": "d"})
    assert in_json == {"description": "d", "anyOf": [{"type": "array", "items": TEXT}, {"type": "null"}]}
    assert in_openapi == {"description": "d", "type": "ARRAY", "items": {"type": "STRING"}, "nullable": True}


@pytest.mark.parametrize("provider", ["gemini json", "gemini openapi"])
@pytest.mark.parametrize("said", [{"const": []}, {"enum": [[]]}, {"enum": ["a", [1]]}, {"enum": [{}, []]}])
def test_gemini_an_array_that_only_a_value_tells_of_has_items(provider: str, said: Any) -> None:
    convert, check = PROVIDERS[provider]
    check(convert(obj(a=said, b={"type": "array", "items": said})).schema)


def test_gemini_a_union_of_types_becomes_any_of() -> None:
    in_json, in_openapi = both({"type": ["string", "integer"], "minLength": 1, "minimum": 1})
    assert in_json == {"anyOf": [TEXT, {"type": "integer", "minimum": 1}]}
    assert in_openapi == {"anyOf": [{"type": "STRING", "minLength": 1}, {"type": "INTEGER", "minimum": 1}]}


def test_gemini_const_becomes_enum_and_one_of_any_of() -> None:
    tagged = [obj("kind", kind={"const": tag}) for tag in ("a", "b")]
    for found in both({"oneOf": tagged}):
        assert [list(branch["properties"]["kind"]["enum"]) for branch in found["anyOf"]] == [["a"], ["b"]]


def test_gemini_enums() -> None:
    in_json, in_openapi = both({"enum": [1, 2]})
    assert in_json == {"type": "integer", "enum": [1, 2]}
    assert in_openapi == {"type": "INTEGER", "enum": ["1", "2"]}
    assert both({"enum": ["a", None]}) == (
        {"anyOf": [{"type": "string", "enum": ["a"]}, {"type": "null"}]},
        {"type": "STRING", "enum": ["a"], "nullable": True},
    )
    assert both({"const": True}) == ({"type": "boolean"}, {"type": "BOOLEAN"})


@pytest.mark.parametrize(
    "keyword",
    [
        "exclusiveMinimum",
        "multipleOf",
        "uniqueItems",
        "$schema",
        "examples",
        "patternProperties",
        "default",
        "x-vendor",
    ],
)
def test_gemini_keywords_that_it_does_not_find_are_left_out(keyword: str) -> None:
    value = {"examples": [1], "patternProperties": {"a": {}}, "uniqueItems": True}.get(keyword, 1)
    for found in both({"type": "number", keyword: value}):
        assert keyword not in found


def test_gemini_an_object_without_properties_is_text_in_the_openapi_dialect() -> None:
    in_json, in_openapi = both({"type": "object", "description": "Labels.", "additionalProperties": TEXT})
    assert in_json["additionalProperties"] == TEXT
    assert in_openapi == {"type": "STRING", "description": "Labels. A JSON object, written as text."}
    assert for_gemini({"type": "object"}, "openapi").schema == {"type": "OBJECT"}


def test_gemini_references_are_put_in_place_and_recursion_is_cut() -> None:
    node = obj("name", name=TEXT, children={"type": "array", "items": {"$ref": "#/$defs/N"}})
    made = for_gemini(obj(a={"$ref": "#/$defs/N"}, b={"$ref": "#/$defs/N"}) | {"$defs": {"N": node}})
    text = json.dumps(made.schema)
    assert "$ref" not in text
    assert made.schema["properties"]["a"] == made.schema["properties"]["b"]
    assert text.count('"name": {"type"') == 6
    assert any("recursion" in change for change in made.changes)
    assert len(json.dumps(for_gemini(LAUGHS).schema)) < 3_000_000


def test_gemini_formats() -> None:
    assert both(TEXT | {"format": "uri"}) == (TEXT, {"type": "STRING"})
    assert both(TEXT | {"format": "date-time"})[0]["format"] == "date-time"
    assert both({"type": "integer", "format": "int32"})[1]["format"] == "int32"


# Output schemas


def test_output_schemas_may_have_any_root() -> None:
    union = {"oneOf": [obj("größe", größe=TEXT), {"type": "null"}], "$schema": "x"}
    assert output.for_responses(union).schema == {"oneOf": union["oneOf"]}
    assert output.for_gemini_response(union).schema == {"anyOf": union["oneOf"]}
    with pytest.raises(UnsupportedSchema):
        output.for_responses(None)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_output_schemas_end(name: str) -> None:
    for convert in (output.for_responses, output.for_gemini_response):
        try:
            check_sendable(convert(HOSTILE[name]).schema)
        except UnsupportedSchema as refusal:
            assert refusal.reason


def test_the_public_names_are_there() -> None:
    assert set(normalise.__all__) >= {"for_openai", "for_anthropic", "for_gemini", "for_bedrock", "Normalised"}
