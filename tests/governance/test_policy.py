"""Policies: which rule decides."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conduit_actors import Policy, errors, rule, tainted
from conduit_actors.policy import PolicyInput


def decide(policy: Policy, name: str, **options: Any) -> str:
    server, _, tool = name.partition("/")
    return policy.decide(PolicyInput(server, tool, **options)).action


def test_the_two_sentences_of_the_design() -> None:
    first = Policy(allow=["github/get_*"], ask=["github/*"])
    assert [decide(first, name) for name in ("github/get_issue", "github/delete_repo")] == ["allow", "ask"]
    second = Policy(allow=["github/*"], ask=["github/delete_*"])
    assert [decide(second, name) for name in ("github/get_issue", "github/delete_repo")] == ["allow", "ask"]


def test_deny_wins_nothing_matches_is_denied_and_a_tie_asks() -> None:
    policy = Policy(allow=["s/exact_name"], deny=["s/*"])
    assert decide(policy, "s/exact_name") == "deny"
    assert decide(Policy(allow=["s/a"]), "s/b") == "deny"
    assert decide(Policy(), "s/a") == "deny"
    assert decide(Policy(allow=["s/a*"], ask=["s/*a"]), "s/a") == "ask"


def test_patterns_match_raw_names_whatever_characters_they_have() -> None:
    assert decide(Policy(allow=["s/a/b*"]), "s/a/b.c") == "allow"
    assert decide(Policy(allow=["*"]), "any/thing/at all") == "allow"
    assert decide(Policy(allow=["s"]), "s/tool") == "allow"
    assert decide(Policy(allow=["s/[a]"]), "s/a") == "deny"
    assert decide(Policy(allow=["s/a"]), "s/a\n") == "deny"
    assert decide(Policy(deny=["*/rm*"], allow=["*"]), "s/rm\n-rf") == "deny"


def test_tainted_matches_only_what_the_context_holds() -> None:
    policy = Policy(allow=["*"], deny=[tainted("mail/send", by="web*")])
    assert decide(policy, "mail/send") == "allow"
    assert decide(policy, "mail/send", taint=frozenset({"files"})) == "allow"
    assert decide(policy, "mail/send", taint=frozenset({"web2"})) == "deny"
    own = Policy(allow=["*"], ask=[tainted("mail/send")])
    assert decide(own, "mail/send", taint=frozenset({"mail"})) == "ask"


def test_rules_with_conditions() -> None:
    policy = Policy(
        allow=[
            rule("db/*", principal="admin*"),
            rule("db/read", annotations={"readOnlyHint": True}),
            rule("db/write", when=lambda arguments: arguments.get("rows", 0) < 10),
        ]
    )
    assert decide(policy, "db/drop", principal="admin-ann") == "allow"
    assert decide(policy, "db/drop", principal="bob") == "deny"
    assert decide(policy, "db/drop") == "deny"
    assert decide(policy, "db/read", annotations={"readOnlyHint": True}) == "allow"
    assert decide(policy, "db/read") == "deny"
    assert decide(policy, "db/write", arguments={"rows": 5}) == "allow"
    assert decide(policy, "db/write", arguments={"rows": 50}) == "deny"


def test_explain_says_which_rule_decided_and_dead_rules_are_found() -> None:
    policy = Policy(allow=["s1/*"], ask=["s9/*"], deny=["s1/delete_*", "later/*"])
    assert "'s1/delete_*'" in policy.explain("s1", "delete_all")
    assert "deny" in policy.explain("s1", "delete_all")
    dead = policy.dead_rules([("s1", "get")], pending=["later"])
    assert len(dead) == 2
    assert "s9" in dead[0]
    assert "delete_" in dead[1]


def test_what_is_worth_offering() -> None:
    policy = Policy(allow=["s/a", tainted("s/t")], ask=["s/b"], deny=["s/c", rule("s/a", when=lambda arguments: True)])
    assert [policy.may_allow("s", tool) for tool in "abctz"] == [True, True, False, True, False]


@pytest.mark.parametrize("rules", ["s/*", [5], [""], [None]])
def test_a_rule_that_is_none_is_refused(rules: Any) -> None:
    with pytest.raises(errors.ConfigurationError):
        Policy(allow=rules)


names = st.text(alphabet="ab*?/._-[]", min_size=1, max_size=8)


@given(st.lists(names), st.lists(names), st.lists(names), names, names)
def test_a_denied_name_is_never_allowed(
    allow: list[str], ask: list[str], deny: list[str], server: str, tool: str
) -> None:
    policy = Policy(allow=allow, ask=ask, deny=deny)
    action = policy.decide(PolicyInput(server, tool)).action
    if policy.deny and any(one.matches_name(server, tool) for one in policy.deny):
        assert action == "deny"
    if not any(one.matches_name(server, tool) for one in (*policy.allow, *policy.ask)):
        assert action == "deny"
    assert policy.may_allow(server, tool) == (action != "deny")
