"""Arguments: parsed, repaired where the schema says so, validated within bounds."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conduit_actors import errors
from conduit_actors.arguments import ArgumentValidator, check_output, parse_arguments
from conduit_actors.json_values import plain_arguments
from no_json import NOT_JSON


def refusal(arguments: Any, schema: dict[str, Any]) -> str:
    with pytest.raises(errors.InvalidArguments) as caught:
        ArgumentValidator(schema).validate(arguments)
    return caught.value.message


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


@pytest.mark.parametrize("given", [None, "", "  \n", "{}", {}])
def test_nothing_given_is_no_arguments(given: Any) -> None:
    assert parse_arguments(given) == {}


@pytest.mark.parametrize(
    "given",
    ["null", "[1,2]", '"x"', "5", "true", '{"a": ', "{bad", '{"a": NaN}', '{"a": Infinity}', '{"a": 1, "a": 2}',
     '{"a": {"b": 1, "b": 2}}', [1], 5, True, '{"a": 1} {"b": 2}', "'a'", "[" * 100_000, '{"a":' * 100_000],
)  # fmt: skip
def test_what_is_no_object_is_refused_in_few_words(given: Any) -> None:
    with pytest.raises(errors.InvalidArguments) as caught:
        parse_arguments(given)
    assert 0 < len(caught.value.message) < 1_000


def test_long_text_is_refused_unread_and_echoed_in_part() -> None:
    with pytest.raises(errors.InvalidArguments) as caught:
        parse_arguments("{" + "x" * 1_000_000)
    assert len(caught.value.message) < 1_000
    with pytest.raises(errors.InvalidArguments, match="at most 10"):
        parse_arguments('{"a": "0123456789"}', max_chars=10)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=4), children, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(st.text(max_size=5), json_values, max_size=4))
def test_an_object_comes_back_as_it_was(arguments: dict[str, Any]) -> None:
    assert parse_arguments(json.dumps(arguments)) == arguments
    assert parse_arguments(arguments) == arguments


@given(st.text(max_size=40) | st.binary(max_size=10) | json_values)
def test_any_input_is_an_object_or_refused(given: Any) -> None:
    try:
        assert isinstance(parse_arguments(given), dict)
    except errors.InvalidArguments as refused:
        assert refused.message


def test_repair_drops_nulls_and_decodes_text_only_where_the_schema_leaves_no_doubt() -> None:
    schema = {
        "type": "object",
        "properties": {
            "after": {"type": "string"},
            "maybe": {"type": ["string", "null"]},
            "any": {},
            "p": {"type": "object"},
            "q": {"type": "string"},
            "both": {"type": ["object", "string"]},
            "list": {"type": "array", "items": {"$ref": "#/$defs/inner"}},
            "needed": {"type": "string"},
        },
        "required": ["needed"],
        "$defs": {"inner": {"type": "object", "properties": {"x": {"type": "integer"}}}},
    }
    repair = ArgumentValidator(schema).repair
    assert repair({"after": None, "maybe": None, "any": None, "needed": None}) == {
        "maybe": None,
        "any": None,
        "needed": None,
    }
    text = '{"a": 1}'
    assert repair({"p": text, "q": text, "both": text}) == {"p": {"a": 1}, "q": text, "both": text}
    assert repair({"p": "[1]"}) == {"p": "[1]"}
    assert repair({"p": "{broken"}) == {"p": "{broken"}
    assert repair({"q": "null", "unknown": None}) == {"q": "null", "unknown": None}
    assert repair({"list": [{"x": None}, {"x": 1}]}) == {"list": [{}, {"x": 1}]}


@given(st.dictionaries(st.sampled_from("abc"), json_values, max_size=3))
def test_repair_changes_neither_its_input_nor_what_is_valid_already(arguments: dict[str, Any]) -> None:
    validator = ArgumentValidator({**of(a={"type": "string"}, b={"type": ["object", "null"]}, c={}), "required": ["b"]})
    before = json.dumps(arguments)
    repaired = validator.repair(arguments)
    assert json.dumps(arguments) == before
    if validator.fault(arguments) is None:
        assert repaired == arguments


def test_the_text_names_the_path_and_the_reason_and_stays_small() -> None:
    text = refusal({"a": {"b": ["x" * 100_000]}}, of(a=of(b={"items": {"type": "integer"}})))
    assert "a.b.0" in text
    assert 'not of type "integer"' in text
    assert len(text) < 600
    many = refusal({}, {"type": "object", "required": [f"field_{number}" for number in range(1_000)]})
    assert len(many) < 600


def test_both_dialects_and_local_references_only() -> None:
    draft7 = {"$schema": "http://json-schema.org/draft-07/schema#", **of(a={"items": [{"type": "integer"}]})}
    assert "a.0" in refusal({"a": ["x"]}, draft7)
    assert "a.0" in refusal({"a": ["x"]}, of(a={"prefixItems": [{"type": "integer"}]}))
    assert "a" in refusal({"a": "x"}, {"$schema": "urn:nobody-knows", **of(a={"type": "integer"})})
    remote = ArgumentValidator(of(a={"$ref": "http://127.0.0.1:9/schema.json"}))
    assert "not followed" in (remote.problem or "")
    remote.validate({"a": 1})


def doubled(levels: int) -> dict[str, Any]:
    each = {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(levels)}
    return {**of(a={"$ref": "#/$defs/d0"}), "$defs": {**each, f"d{levels}": {"type": "string"}}}


def forked() -> dict[str, Any]:
    branch = {"properties": {"n": {"$ref": "#/$defs/n"}}, "required": ["z"]}
    return {**of(n={"$ref": "#/$defs/n"}), "$defs": {"n": {"anyOf": [branch, dict(branch)]}}}


def overlapping(*parts: dict[str, Any]) -> dict[str, Any]:
    """Each level of a value is checked against the same schema once per part."""
    again: list[dict[str, Any]] = json.loads(json.dumps(parts).replace('"n-again"', '{"$ref": "#/$defs/n"}'))
    merged = {key: value for one in again for key, value in one.items()} if len(again) == 2 else {"allOf": again}
    return {**of(n={"$ref": "#/$defs/n"}), "$defs": {"n": {**merged, "required": ["z"]}}}


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"n": value}
    return value


@pytest.mark.parametrize(
    ("schema", "arguments"),
    [
        (of(a={"pattern": "^(a+)+$"}), {"a": "a" * 50_000 + "!"}),
        (of(a={"pattern": r"^(?=(a+)+$)(a+)+\1$"}), {"a": "a" * 50_000 + "!"}),
        (doubled(60), {"a": 1}),
        (doubled(12), {"a": 1}),
        (forked(), nested(8)),
        (forked(), nested(90)),
        (of(n={"$ref": "#"}), nested(90)),
        (overlapping({"properties": {"n": "n-again"}}, {"patternProperties": {"^n": "n-again"}}), nested(90)),
        (overlapping({"patternProperties": {"^n": "n-again", "n$": "n-again"}}, {}), nested(90)),
        (
            overlapping({"properties": {"n": "n-again"}}, {"additionalProperties": "n-again"}, {"type": "object"}),
            nested(90),
        ),
        (of(a={"$ref": "#/$defs/a"}) | {"$defs": {"a": {"$ref": "#/$defs/a"}}}, {"a": 1}),
        ({"type": "nonsense"}, {"a": 1}),
        (nested(5_000), {}),
        (of(a={"uniqueItems": True}), {"a": [{"x": number} for number in range(3_000)]}),
    ],
)
def test_a_hostile_schema_cannot_keep_the_loop(schema: dict[str, Any], arguments: dict[str, Any]) -> None:
    started = time.thread_time()
    validator = ArgumentValidator(schema)
    repaired = validator.repair(arguments)
    validator.fault(repaired)
    # Unbounded, the cheapest of them takes minutes.
    assert time.thread_time() - started < 10


def test_recursive_schemas_of_the_honest_kind_are_checked_at_any_depth() -> None:
    every = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"$ref": "#/$defs/json"}},
                       {"type": "object", "additionalProperties": {"$ref": "#/$defs/json"}}]}  # fmt: skip
    schema = {**of(n={"$ref": "#/$defs/json"}), "$defs": {"json": every}}
    value: Any = 5
    for _ in range(60):
        value = {"n": value}
    validator = ArgumentValidator(schema)
    assert validator.problem is None
    assert validator.fault(value) is not None
    assert validator.fault({"n": {"n": ["fine"]}}) is None


@pytest.mark.parametrize("value", NOT_JSON.values(), ids=NOT_JSON)
def test_what_json_does_not_have_is_refused_whatever_the_schema_says(value: Any) -> None:
    with pytest.raises(errors.InvalidArguments, match="not JSON") as caught:
        plain_arguments({"a": value})
    assert len(caught.value.message) < 300


@given(st.dictionaries(st.text(), json_values))
def test_json_is_copied_as_it_is(arguments: dict[str, Any]) -> None:
    copied = plain_arguments(arguments)
    assert copied == arguments
    assert copied is not arguments


def test_text_that_is_no_strict_json_is_not_decoded() -> None:
    validator = ArgumentValidator(of(p={"type": "object"}))
    for text in ('{"a": NaN}', '{"a": 1e999}', '{"a": 1, "a": 2}', '{"a":' * 200 + "1" + "}" * 200, '{"a": "\\ud800"}'):
        assert validator.repair({"p": text}) == {"p": text}


def test_output_that_does_not_fit_is_a_warning() -> None:
    validator = ArgumentValidator(of(total={"type": "integer"}))
    assert check_output(validator, {"total": 5}) is None
    assert "total" in (check_output(validator, {"total": "x"}) or "")
    assert check_output(validator, None) is not None
