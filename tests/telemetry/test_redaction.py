"""Nothing that passes a `Redactor` shows a secret."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conduit_telemetry import Redactor

CANARY = 'canary/7f3a "9c1e"&x=1'


def nested(leaf: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    keys = st.sampled_from(["a", "note", f"about {CANARY}"])
    return st.recursive(leaf, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3))


@given(nested(st.builds(lambda a, b: a + CANARY + b, st.text(max_size=20), st.text(max_size=20)) | st.integers()))
def test_a_known_secret_is_found_wherever_it_stands(value: Any) -> None:
    shown = json.dumps(Redactor([CANARY]).value(value), ensure_ascii=False)
    assert "canary" not in shown
    assert "9c1e" not in shown


@pytest.mark.parametrize("form", [CANARY, quote(CANARY, safe=""), json.dumps(CANARY)])
def test_a_known_secret_is_found_in_a_url_and_in_json(form: str) -> None:
    assert "canary" not in Redactor([CANARY]).text(f"http://h/?q={form}&r=1")


def test_a_secret_that_holds_another_is_taken_out_whole() -> None:
    assert Redactor(["hunter", "hunter-two-three"]).text("x hunter-two-three y") == "x [redacted] y"


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Bearer zzzz1111yyyy",
        "ghp_zzzz1111yyyyxxxx",
        "https://user:zzzz1111@host/path",
        "eyJzzzz1111yy.eyJzzzz1111yy.zzzz1111",
        "-----BEGIN RSA PRIVATE KEY-----\nzzzz1111\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\nzzzz1111 cut off",
    ],
)
def test_what_looks_like_a_credential_is_taken_out(text: str) -> None:
    assert "zzzz1111" not in Redactor().text(f"before {text} after")


@pytest.mark.parametrize("key", ["password", "API-Key", "x_secret", "Authorization", "Set-Cookie", "accessToken"])
def test_values_of_telling_keys_are_replaced_whole(key: str) -> None:
    assert Redactor().value({key: {"deep": ["v"]}, "path": "a"}) == {key: "[redacted]", "path": "a"}


def test_short_and_common_words_are_left_alone() -> None:
    redactor = Redactor(["a", "1", "true", "debug"])
    assert redactor.text("a debug run of 1 is true") == "a debug run of 1 is true"


def test_a_secret_is_taken_out_before_text_is_cut() -> None:
    shown = Redactor(["zzzz1111yyyy"], max_chars=12).text("12345678zzzz1111yyyy")
    assert "zzzz" not in shown


def test_data_of_any_depth_ends() -> None:
    value: Any = "leaf"
    for _ in range(100_000):
        value = [value]
    assert "..." in json.dumps(Redactor().value(value))


def test_the_data_that_it_is_given_stays_as_it_is() -> None:
    value = {"token": "v", "list": [{"password": "w"}]}
    Redactor().value(value)
    assert value == {"token": "v", "list": [{"password": "w"}]}
