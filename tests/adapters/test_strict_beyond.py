"""Where the strict conversion goes beyond the guide, without a loss; and the nulls that it has to take back."""

from __future__ import annotations

import copy
from typing import Any

import jsonschema
import pytest

from conduit_actors.adapters.schemas.nulls import strip_nulls
from conduit_actors.adapters.schemas.strict import strict_schema
from conduit_actors.errors import UnsupportedSchema
from schema_material import check_strict, obj

TEXT = {"type": "string"}
MAYBE = {"type": ["string", "null"]}


def refused(schema: Any) -> UnsupportedSchema:
    with pytest.raises(UnsupportedSchema) as caught:
        strict_schema(schema)
    return caught.value


def converted(schema: Any) -> Any:
    """One property's schema, converted."""
    return strict_schema(obj("a", a=schema)).schema["properties"]["a"]


def test_one_of_branches_with_different_tags_becomes_any_of() -> None:
    tagged = [obj("kind", kind={"const": tag}, n={"type": "integer"}) for tag in ("a", "b")]
    assert len(converted({"oneOf": tagged})["anyOf"]) == 2


def test_one_of_different_types_becomes_any_of() -> None:
    assert converted({"oneOf": [TEXT, {"type": "null"}]}) == {"anyOf": [TEXT, {"type": "null"}]}
    refused(obj(a={"oneOf": [{"type": "integer"}, {"type": "number"}]}))


def test_one_of_objects_that_require_what_the_other_does_not_have_becomes_any_of() -> None:
    assert len(converted({"oneOf": [obj("id", id=TEXT), obj("url", url=TEXT)]})["anyOf"]) == 2
    # Here {"id", "url"} fits both, which oneOf forbids and anyOf would let through.
    assert refused(obj(a={"oneOf": [obj("id", id=TEXT, url=TEXT), obj("url", url=TEXT)]})).reason == "oneOf"


def test_a_single_all_of_is_inlined() -> None:
    assert converted({"allOf": [TEXT], "description": "d"}) == {"type": "string", "description": "d"}
    assert refused(obj(a={"allOf": [{"minLength": 1}], "type": "string", "minLength": 2})).reason == "allOf"


def test_a_reference_with_a_description_becomes_an_any_of() -> None:
    schema = obj("a", a={"$ref": "#/$defs/D", "description": "d", "default": "x"}) | {"$defs": {"D": TEXT}}
    found = strict_schema(schema).schema["properties"]["a"]
    assert found == {"anyOf": [{"$ref": "#/$defs/D"}], "description": "d"}


def test_a_reference_with_a_bound_is_inlined_and_with_more_is_refused() -> None:
    schema = obj("a", a={"$ref": "#/$defs/D", "maxLength": 3}) | {"$defs": {"D": TEXT}}
    assert strict_schema(schema).schema["properties"]["a"] == {"type": "string", "maxLength": 3}
    both = obj("a", a={"$ref": "#/$defs/D", "maxLength": 3}) | {"$defs": {"D": {"type": "string", "maxLength": 2}}}
    assert "$ref with siblings" in refused(both).reason


def test_what_stands_beside_a_union_moves_into_its_branches() -> None:
    schema = {**obj(id=TEXT, url=TEXT), "anyOf": [{"required": ["id"]}, {"required": ["url"]}]}
    first, second = converted(schema)["anyOf"]
    assert first["properties"]["id"] == TEXT
    assert second["properties"]["id"] == MAYBE
    assert converted({"type": "string", "anyOf": [TEXT, {"type": "integer"}]}) == {"anyOf": [TEXT]}
    assert converted({"maxLength": 3, "anyOf": [TEXT]}) == {"anyOf": [{"type": "string", "maxLength": 3}]}


def test_a_pointer_into_the_body_becomes_a_definition() -> None:
    schema = obj(x=obj("v", v=TEXT), y={"type": "array", "items": {"$ref": "#/properties/x"}})
    strict = strict_schema(schema).schema
    check_strict(strict)
    assert strict["$defs"] == {"properties_x": strict["properties"]["x"] | {"type": "object"}}


def test_two_pointers_never_share_a_definition() -> None:
    schema = obj(**{"a b": obj(x=TEXT), "a_b": {"type": "integer"}})
    schema["properties"] |= {"p": {"$ref": "#/properties/a%20b"}, "q": {"$ref": "#/properties/a_b"}}
    definitions = strict_schema(schema).schema["$defs"]
    assert sorted(one["type"] for one in definitions.values()) == ["integer", "object"]


def test_anchors_are_references_too() -> None:
    schema = obj("a", "b", a=TEXT | {"$anchor": "text"}, b={"$ref": "#text"})
    assert list(strict_schema(schema).schema["$defs"].values()) == [TEXT]


def test_look_around_and_back_references_are_dropped() -> None:
    for pattern in ("(?=a)b", "(?!a)b", "(?<=a)b", "(?<!a)b", r"(a)\1"):
        assert converted(TEXT | {"pattern": pattern}) == TEXT
    assert converted(TEXT | {"pattern": "^(?:a|b)$"})["pattern"] == "^(?:a|b)$"


def test_a_missing_type_is_taken_from_the_values() -> None:
    assert converted({"enum": ["a", 1]}) == {"type": ["string", "integer"], "enum": ["a", 1]}
    assert converted({"const": True}) == {"type": "boolean", "const": True}


NODE = obj(
    "name", name=TEXT, next={"$ref": "#/$defs/Node"}, children={"type": "array", "items": {"$ref": "#/$defs/Node"}}
)


def test_recursion_with_optional_properties_is_kept() -> None:
    schema = obj("tree", tree={"$ref": "#/$defs/Node"}) | {"$defs": {"Node": NODE}}
    strict = strict_schema(schema)
    leaf = {"name": "c", "next": None, "children": None}
    given = {"tree": {"name": "a", "next": leaf, "children": [{"name": "b", "next": leaf, "children": [leaf]}]}}
    jsonschema.validate(given, strict.schema)
    assert strip_nulls(given, strict.null_paths, schema) == {
        "tree": {
            "name": "a",
            "next": {"name": "c"},
            "children": [{"name": "b", "next": {"name": "c"}, "children": [{"name": "c"}]}],
        }
    }


def test_recursion_in_which_the_same_name_has_a_real_null_is_kept() -> None:
    node = obj("meta", name=TEXT, meta=obj("name", name=MAYBE), next={"$ref": "#/$defs/Node"})
    schema = obj("tree", tree={"$ref": "#/$defs/Node"}) | {"$defs": {"Node": node}}
    inner = {"name": None, "meta": {"name": None}, "next": None}
    given = {"tree": inner | {"next": inner}}
    stripped = strip_nulls(given, strict_schema(schema).null_paths, schema)
    assert stripped == {"tree": {"meta": {"name": None}, "next": {"meta": {"name": None}}}}


def test_mutual_recursion_is_kept_from_wherever_it_is_entered() -> None:
    definitions = {
        "A": obj(x=TEXT, b={"$ref": "#/$defs/B"}),
        "B": obj(y=TEXT, a={"$ref": "#/$defs/A"}),
    }
    schema = obj("a", "b", a={"$ref": "#/$defs/A"}, b={"$ref": "#/$defs/B"}) | {"$defs": definitions}
    a: Any = {"x": None, "b": {"y": None, "a": {"x": None, "b": {"y": None, "a": None}}}}
    given = {"a": a, "b": {"y": None, "a": a}}
    stripped = strip_nulls(given, strict_schema(schema).null_paths, schema)
    assert stripped == {"a": {"b": {"a": {"b": {}}}}, "b": {"a": {"b": {"a": {"b": {}}}}}}


@pytest.mark.parametrize("definition", [{"$ref": "#/$defs/A"}, {"anyOf": [{"$ref": "#/$defs/A"}, TEXT]}])
def test_a_reference_that_leads_only_to_itself_is_refused(definition: Any) -> None:
    assert "$ref" in refused(obj(a={"$ref": "#/$defs/A"}) | {"$defs": {"A": definition}}).reason


# Nulls


def test_null_paths_reach_through_lists_unions_and_references() -> None:
    item = obj(a=TEXT, b=MAYBE)
    schema = obj(
        "items", items={"type": "array", "items": item}, either={"anyOf": [item, TEXT]}, ref={"$ref": "#/$defs/D"}
    ) | {"$defs": {"D": item}}
    assert set(strict_schema(schema).null_paths) == {
        ("items", "*", "a"),
        ("either",),
        ("either", "a"),
        ("ref",),
        ("ref", "a"),
    }


def test_only_a_null_that_stands_for_left_out_is_taken_away() -> None:
    item = obj("r", a=TEXT, b=MAYBE, r=MAYBE)
    schema = obj(items={"type": "array", "items": item}, either={"anyOf": [item, TEXT]}, top=MAYBE)
    given = {"items": [{"a": None, "b": None, "r": None}], "either": {"a": None, "b": None, "r": None}, "top": None}
    before = copy.deepcopy(given)
    stripped = strip_nulls(given, strict_schema(schema).null_paths, schema)
    assert stripped == {"items": [{"b": None, "r": None}], "either": {"b": None, "r": None}, "top": None}
    assert given == before


def test_paths_as_lists_as_they_come_out_of_json_are_taken() -> None:
    schema = obj("q", q=TEXT, limit={"type": "integer"})
    assert strip_nulls({"q": "x", "limit": None}, [["limit"]], schema) == {"q": "x"}
    assert strip_nulls({"q": "x", "limit": None}, [], schema) == {"q": "x", "limit": None}


def test_a_property_named_like_a_wildcard_is_told_apart() -> None:
    schema = obj("list", **{"*": TEXT, "**": TEXT, "~x": TEXT, "list": {"type": "array", "items": obj(x=TEXT)}})
    given = {"*": None, "**": None, "~x": None, "list": [{"x": None}]}
    assert strip_nulls(given, strict_schema(schema).null_paths, schema) == {"list": [{}]}


def test_a_null_that_would_mean_two_things_is_a_reason_to_refuse() -> None:
    assert "null means two things at x" in refused(obj(a={"anyOf": [obj(x=TEXT), obj("x", x=MAYBE)]})).reason


def test_in_branches_that_exclude_each_other_the_branch_says_what_a_null_means() -> None:
    left = obj("kind", kind={"const": "left"}, x=TEXT)
    right = obj("kind", "x", kind={"const": "right"}, x=MAYBE)
    schema = obj("a", "b", a={"anyOf": [left, right]}, b={"anyOf": [left, right]})
    given = {"a": {"kind": "left", "x": None}, "b": {"kind": "right", "x": None}}
    stripped = strip_nulls(given, strict_schema(schema).null_paths, schema)
    assert stripped == {"a": {"kind": "left"}, "b": {"kind": "right", "x": None}}


def test_a_value_that_fits_no_branch_is_left_as_it_is() -> None:
    schema = obj("a", a={"anyOf": [obj("k", k=TEXT, x=TEXT), {"type": "integer"}]})
    given = {"a": {"k": 5, "x": None}}
    assert strip_nulls(given, strict_schema(schema).null_paths, schema) == given
