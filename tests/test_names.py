"""Exposed names: legal everywhere, distinct, stable."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from conduit_actors.names import NAME_PATTERN, assign

origins = st.lists(
    st.tuples(st.text(min_size=1, max_size=70), st.text(max_size=70))
    | st.tuples(st.sampled_from(["a", "a_", "a.", "3d"]), st.sampled_from(["b", "b.", "_b", "b_", "__b", "2d_plot"])),
    unique=True,
    max_size=20,
)


@given(origins, st.booleans(), st.randoms())
def test_names_are_legal_distinct_and_do_not_depend_on_the_order(
    given_origins: list[tuple[str, str]], namespaced: bool, chance: random.Random
) -> None:
    names = dict(zip(given_origins, assign(given_origins, namespaced=namespaced), strict=True))
    assert all(name is not None and NAME_PATTERN.match(name) for name in names.values())
    assert len(set(names.values())) == len(names)
    shuffled = list(given_origins)
    chance.shuffle(shuffled)
    assert dict(zip(shuffled, assign(shuffled, namespaced=namespaced), strict=True)) == names


def test_plain_names_stay_plain_and_long_ones_get_a_stable_hash() -> None:
    assert assign([("files", "read_text")]) == ["files__read_text"]
    assert assign([("files", "read_text")], namespaced=False) == ["read_text"]
    assert assign([("3d", "2d_plot")]) == ["_3d__2d_plot"]
    long = [("x" * 40, "y" * 59 + "1"), ("x" * 40, "y" * 59 + "2")]
    first, second = assign(long)
    assert first != second
    assert first == "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx__yyyyyyyyyyyyy_" + (first or "")[-8:]
    assert assign(long[:1]) == [first]


def test_a_collision_can_leave_the_later_one_out_instead() -> None:
    both = [("s", "a.b"), ("s", "a_b")]
    renamed = assign(both)
    assert None not in renamed
    assert renamed[0] != renamed[1]
    assert assign(both, exclude_collisions=True) == ["s__a_b", None]
