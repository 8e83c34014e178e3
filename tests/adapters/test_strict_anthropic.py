"""Anthropic's strict mode: what it takes, and the budgets of a request."""

from __future__ import annotations

import re
from typing import Any

import pytest

from conduit_actors.adapters.schemas import anthropic_strict
from conduit_actors.adapters.schemas.anthropic_strict import Budgets, plan, strict_schema
from conduit_actors.adapters.schemas.renames import restore
from conduit_actors.errors import UnsupportedSchema
from schema_material import HOSTILE, check_anthropic, obj, real_tools, schemas_in

TEXT = {"type": "string"}


def check(schema: Any) -> None:
    check_anthropic(schema)
    refused = {
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength"),
        *("maxItems", "oneOf", "not", "if", "uniqueItems", "prefixItems", "patternProperties"),
    }
    for node in schemas_in(schema):
        assert not refused & node.keys()
        assert node.get("minItems", 0) in (0, 1)
        if node.get("type") == "object":
            assert node["additionalProperties"] is False
        assert not any(isinstance(value, (dict, list)) for value in node.get("enum", []))


def refused(schema: Any) -> UnsupportedSchema:
    with pytest.raises(UnsupportedSchema) as caught:
        strict_schema(schema)
    return caught.value


def test_optional_properties_stay_optional_and_objects_are_closed() -> None:
    made = strict_schema(obj("q", q=TEXT, limit={"type": "integer"}))
    assert made.schema == {
        "type": "object",
        "properties": {"q": TEXT, "limit": {"type": "integer"}},
        "required": ["q"],
        "additionalProperties": False,
    }
    assert (made.optional, made.unions) == (1, 0)


def test_optional_and_union_parameters_are_counted_at_every_depth() -> None:
    inner = obj(a=TEXT, b={"type": ["string", "null"]})
    made = strict_schema(
        obj("x", x={"type": "array", "items": inner}, y={"anyOf": [inner, TEXT]}, z={"$ref": "#/$defs/D"})
        | {"$defs": {"D": inner}}
    )
    assert made.optional == 2 + 3 * 2
    assert made.unions == 1 + 3


def test_bounds_move_into_the_description() -> None:
    number = {"type": "integer", "minimum": 1, "maximum": 9, "description": "How many."}
    items = {"type": "array", "items": TEXT, "minItems": 2, "maxItems": 3}
    made = strict_schema(obj(n=number, items=items, one=items | {"minItems": 1, "maxItems": 1}))
    check(made.schema)
    assert made.schema["properties"]["n"]["description"] == "How many. (minimum: 1; maximum: 9)"
    assert made.schema["properties"]["one"]["minItems"] == 1
    assert made.changes


def test_formats_and_simple_patterns_are_kept() -> None:
    made = strict_schema(
        obj(a=TEXT | {"format": "uri"}, b=TEXT | {"pattern": "^[a-z]+$"}, c=TEXT | {"pattern": "(?=a)"})
    )
    assert made.schema["properties"]["a"]["format"] == "uri"
    assert made.schema["properties"]["b"]["pattern"] == "^[a-z]+$"
    assert made.schema["properties"]["c"] == {"type": "string", "description": '(pattern: "(?=a)")'}


@pytest.mark.parametrize(
    ("schema", "reason", "path"),
    [
        ({"type": "object"}, "open map", ("properties", "a")),
        (obj() | {"additionalProperties": TEXT}, "open map", ("properties", "a", "additionalProperties")),
        ({"not": {}}, "not", ("properties", "a", "not")),
        ({"enum": [{"x": 1}]}, "enum with an object or a list", ("properties", "a", "enum")),
        ({"allOf": [TEXT, TEXT]}, "allOf", ("properties", "a", "allOf")),
        ({"description": "anything"}, "no type", ("properties", "a")),
    ],
)
def test_refused(schema: Any, reason: str, path: tuple[str, ...]) -> None:
    error = refused(obj(a=schema))
    assert (error.reason, error.path) == (reason, path)


def test_recursion_is_refused() -> None:
    node = obj(next={"$ref": "#/$defs/N"})
    assert refused(obj(a={"$ref": "#/$defs/N"}) | {"$defs": {"N": node}}).reason == "recursive $ref"
    assert refused(obj(a={"$ref": "#"})).reason == "recursive $ref"


def test_keys_are_renamed_and_given_back() -> None:
    made = strict_schema(obj("größe", größe=TEXT))
    (name,) = made.schema["properties"]
    assert re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", name)
    assert made.schema["required"] == [name]
    assert restore({name: "x"}, made.renames) == {"größe": "x"}


def test_the_plan_keeps_to_each_budget_and_says_why_not() -> None:
    required, optional, union = obj("a", a=TEXT), obj(a=TEXT), obj("a", a={"anyOf": [TEXT, {"type": "integer"}]})
    planned = plan([required, optional, optional, union, union, required], Budgets(tools=4, optional=1, unions=1))
    assert [one.strict is not None for one in planned] == [True, True, False, True, False, True]
    assert "optional" in planned[2].reason
    assert "union" in planned[4].reason
    assert "strict tools" in plan([required] * 3, Budgets(tools=2))[2].reason
    assert plan([obj(a=True)])[0].path == ("properties", "a")


def test_the_default_budgets_are_the_documented_ones() -> None:
    assert (Budgets().tools, Budgets().optional, Budgets().unions) == (20, 24, 16)
    planned = plan([schema for _, schema in real_tools()])
    strict = [one.strict for one in planned if one.strict is not None]
    assert 0 < len(strict) <= 20
    assert sum(one.optional for one in strict) <= 24
    assert sum(one.unions for one in strict) <= 16
    assert all(one.reason for one in planned if one.strict is None)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_schemas_end_in_a_schema_or_a_refusal(name: str) -> None:
    try:
        made = anthropic_strict.strict_schema(HOSTILE[name])
    except UnsupportedSchema:
        return
    check(made.schema)


def test_real_tools_convert_or_are_refused_with_a_true_path() -> None:
    done = 0
    for name, schema in real_tools():
        try:
            made = strict_schema(schema)
        except UnsupportedSchema as refusal:
            target: Any = schema
            for part in refusal.path:
                target = target[part]
            assert refusal.reason, name
            continue
        check(made.schema)
        done += 1
    assert done > 300
