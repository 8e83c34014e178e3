"""Who may call what: `Policy`, its rules, and how they decide.

A pattern is a glob on the raw ``server/tool``: ``*`` matches any run of characters and ``?`` one character. The first
slash separates server and tool, and no wildcard crosses it; a tool's name may have slashes of its own, which wildcards
match. A plain word is a server's id: ``github`` means ``github/*``. A pattern with wildcards and no slash is for the
whole name: ``*`` matches everything, ``*delete*`` whatever has "delete" in its server or its tool.
"""

from __future__ import annotations

import inspect
import logging
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal, TypeAlias, cast

from conduit_actors.errors import ConfigurationError
from conduit_actors.host_faults import kind_and_place

logger = logging.getLogger("conduit_actors")

Action: TypeAlias = Literal["allow", "ask", "deny"]


@dataclass(frozen=True, slots=True)
class PolicyInput:
    """One question to a policy. `arguments` is None where they are not known, as in a listing.

    Attributes:
        annotations: what the *host* declared of the tool; never what its server says of itself.
        taint: servers whose output is in the model's context.
    """

    server_id: str
    tool: str
    principal: str | None = None
    taint: frozenset[str] = frozenset()
    annotations: Mapping[str, Any] = field(default_factory=dict[str, Any])
    arguments: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """A pattern with conditions; all of them must hold. Made by `rule` and `tainted`, or by a plain string.

    Attributes:
        taint_by: holds for a call whose taint has a server that this glob matches.
        principal: a glob on the principal.
        annotations: host-declared annotations that the tool must have.
        when: called with the arguments, plain, not async; one that raises denies the call. In a
            listing, where there are no arguments, it counts as possible.
    """

    pattern: str
    taint_by: str | None = None
    principal: str | None = None
    annotations: Mapping[str, Any] = field(default_factory=dict[str, Any])
    when: Callable[[Mapping[str, Any]], bool] | None = None

    def matches_name(self, server_id: str, tool: str) -> bool:
        """Whether the pattern fits, whatever the conditions."""
        server_part, slash, tool_part = _whole(self.pattern).partition("/")
        if not slash:
            return _glob(server_part).match(f"{server_id}/{tool}") is not None
        return _glob(server_part).match(server_id) is not None and _glob(tool_part).match(tool) is not None

    def matches(self, call: PolicyInput) -> bool:
        """Whether the rule applies to this call."""
        return self.matches_name(call.server_id, call.tool) and self.holds(call)

    def holds(self, call: PolicyInput) -> bool:
        """Whether the conditions hold, for a call whose name the pattern fits."""
        if self.taint_by is not None:
            taint = _glob(self.taint_by)
            if not any(taint.match(server) for server in call.taint):
                return False
        if self.principal is not None and (
            call.principal is None or _glob(self.principal).match(call.principal) is None
        ):
            return False
        if any(call.annotations.get(key) != value for key, value in self.annotations.items()):
            return False
        if self.when is None or call.arguments is None:
            return True
        answer: object = self.when(call.arguments)
        if inspect.isawaitable(answer):
            # It would be true whatever it says.
            raise TypeError(f"the condition of the rule {self} is async")
        return bool(answer)

    @property
    def conditional(self) -> bool:
        """Whether more than the name decides."""
        return bool(self.taint_by or self.principal or self.annotations or self.when)

    @property
    def specificity(self) -> int:
        """The number of literal characters of the pattern."""
        return sum(character not in "*?" for character in _whole(self.pattern))

    def __str__(self) -> str:
        if self.taint_by is not None:
            return f"tainted({self.pattern!r}, by={self.taint_by!r})"
        return f"{self.pattern!r}{' with conditions' if self.conditional else ''}"


def tainted(pattern: str, by: str = "*") -> Rule:
    """A rule for calls whose taint has a server that `by` matches, the tool's own server included."""
    return Rule(pattern, taint_by=by)


def rule(
    pattern: str,
    *,
    principal: str | None = None,
    annotations: Mapping[str, Any] | None = None,
    when: Callable[[Mapping[str, Any]], bool] | None = None,
) -> Rule:
    """A rule with conditions on the principal, on host-declared annotations, or on the arguments."""
    return Rule(pattern, principal=principal, annotations=dict(annotations or {}), when=when)


RuleLike: TypeAlias = str | Rule


@dataclass(frozen=True, slots=True)
class Decision:
    """What a policy says of a call, and why."""

    action: Action
    reason: str
    rule: str | None = None


_NOTHING_MATCHES = Decision("deny", "no rule of the policy allows it")

_NAMES_KEPT = 10_000
"""Names come from servers; what is remembered must not grow with their fantasy."""

_WORDS: Mapping[Action, str] = {"allow": "allowed", "ask": "asks", "deny": "denied"}


class Policy:
    """Allow, ask and deny rules.

    A matching deny rule wins. Among the matching allow and ask rules the most specific pattern (most literal
    characters) decides, and a tie asks. What no rule matches is denied.

    Raises:
        ConfigurationError: a rule is neither a pattern nor a `Rule`.
    """

    def __init__(
        self, allow: Iterable[RuleLike] = (), ask: Iterable[RuleLike] = (), deny: Iterable[RuleLike] = ()
    ) -> None:
        self.allow = _rules("allow", allow)
        self.ask = _rules("ask", ask)
        self.deny = _rules("deny", deny)
        self._of_name: dict[tuple[str, str], Decision | list[tuple[Action, Rule]]] = {}

    def __repr__(self) -> str:
        parts = ((name, getattr(self, name)) for name in ("allow", "ask", "deny"))
        return f"Policy({', '.join(f'{name}=[{_listed(rules)}]' for name, rules in parts if rules)})"

    def decide(self, call: PolicyInput) -> Decision:
        """The decision for one call. The same input gives the same decision."""
        found = self._of_name.get((call.server_id, call.tool))
        if found is None:
            found = self._remember(call)
        return found if isinstance(found, Decision) else _first(found, call)

    def _remember(self, call: PolicyInput) -> Decision | list[tuple[Action, Rule]]:
        """What the name alone says: the decision, or the rules whose conditions have to be looked at."""
        if len(self._of_name) > _NAMES_KEPT:
            self._of_name.clear()
        rules = self._in_order(call.server_id, call.tool)
        found = rules if any(one.conditional for _, one in rules) else _first(rules, call)
        self._of_name[call.server_id, call.tool] = found
        return found

    def _in_order(self, server_id: str, tool: str) -> list[tuple[Action, Rule]]:
        """The rules whose pattern fits, so that the first whose conditions hold decides."""

        def fitting(action: Action, rules: Sequence[Rule]) -> list[tuple[Action, Rule]]:
            return [(action, one) for one in rules if one.matches_name(server_id, tool)]

        # Ask rules come first and the sort is stable, so that a tie asks.
        others = fitting("ask", self.ask) + fitting("allow", self.allow)
        return fitting("deny", self.deny) + sorted(others, key=lambda pair: -pair[1].specificity)

    def explain(
        self,
        server_id: str,
        tool: str,
        *,
        principal: str | None = None,
        taint: Collection[str] = (),
        annotations: Mapping[str, Any] | None = None,
        arguments: Mapping[str, Any] | None = None,
    ) -> str:
        """One sentence: what happens to such a call, and which rule decides."""
        call = PolicyInput(server_id, tool, principal, frozenset(taint), dict(annotations or {}), arguments)
        decision = self.decide(call)
        return f"{server_id}/{tool}: {decision.action}, {decision.reason}"

    def may_allow(
        self,
        server_id: str,
        tool: str,
        principal: str | None = None,
        *,
        annotations: Mapping[str, Any] | None = None,
    ) -> bool:
        """Whether some call of the tool could be allowed or asked for: whether it is worth offering to a model."""
        call = PolicyInput(server_id, tool, principal, annotations=dict(annotations or {}))
        for one in self.deny:
            # A deny rule that looks at arguments or taint does not forbid every call.
            if one.when is None and one.taint_by is None and one.matches(call):
                return False
        return any(
            one.matches(call) or (one.taint_by is not None and one.matches_name(server_id, tool))
            for one in (*self.allow, *self.ask)
        )

    def dead_rules(self, tools: Collection[tuple[str, str]], pending: Collection[str] = ()) -> list[str]:
        """Rules that can never match: there is no such server, or it has no such tool.

        Args:
            tools: (server id, raw name) of all known tools.
            pending: servers whose tools are not known yet; a rule that may be meant for one of them is not judged.
        """
        dead: list[str] = []
        for action, rules in (("allow", self.allow), ("ask", self.ask), ("deny", self.deny)):
            for one in rules:
                server, slash, _ = _whole(one.pattern).partition("/")
                if any(not slash or _glob(server).match(server_id) for server_id in pending):
                    continue
                if not any(one.matches_name(server_id, tool) for server_id, tool in tools):
                    dead.append(f"the {action} rule {one} matches no tool")
        return dead


PolicySource: TypeAlias = Policy | Callable[[str | None], Policy]
"""A policy, or a function that gives each principal's."""


class _BrokenPolicy(Policy):
    """Stands for a policy that could not be had: it denies everything and says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(deny=["*"])
        self._reason = reason

    def decide(self, call: PolicyInput) -> Decision:
        return Decision("deny", self._reason)


def policy_for(source: PolicySource, principal: str | None) -> Policy:
    """The policy of one principal. A function that raises, or gives no `Policy`, leaves one that denies everything."""
    if isinstance(source, Policy):
        return source
    try:
        policy = cast("object", source(principal))
    except Exception as error:  # noqa: BLE001 - the host's own code raises what it likes
        # The host's own code: it fails closed, and the operator finds the reason in the log.
        logger.error("the policy function raised %s", kind_and_place(error))
        return _BrokenPolicy(f"the policy failed ({type(error).__name__}); ask the operator")
    if isinstance(policy, Policy):
        return policy
    logger.error("the policy function gave %s, not a Policy", type(policy).__name__)
    return _BrokenPolicy(f"the policy function gave {type(policy).__name__}; ask the operator")


def _first(rules: Sequence[tuple[Action, Rule]], call: PolicyInput) -> Decision:
    for action, one in rules:
        try:
            holds = one.holds(call)
        except Exception as error:  # noqa: BLE001 - the host's own code raises what it likes
            logger.error("the condition of the rule %s raised %s", one, kind_and_place(error))
            return Decision("deny", f"a rule of the policy failed ({type(error).__name__}); ask the operator", str(one))
        if holds:
            return Decision(action, f"{_WORDS[action]} by the rule {one}", str(one))
    return _NOTHING_MATCHES


def _rules(kind: str, given: Iterable[RuleLike]) -> tuple[Rule, ...]:
    if isinstance(given, (str, Rule)):
        raise ConfigurationError(f"Policy.{kind} is a list of rules, not one rule")
    rules: list[Rule] = []
    for one in given:
        if isinstance(one, str):
            one = Rule(one)
        elif not isinstance(one, Rule):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"Policy.{kind} has a rule that is neither a pattern nor a Rule: {one!r}")
        if not one.pattern:
            raise ConfigurationError(f"Policy.{kind} has an empty pattern")
        rules.append(one)
    return tuple(rules)


def _listed(rules: Sequence[Rule]) -> str:
    return ", ".join(str(one) for one in rules)


def _whole(pattern: str) -> str:
    """The pattern, spelt out if it is a server's id."""
    return pattern if any(character in pattern for character in "/*?") else f"{pattern}/*"


@lru_cache(maxsize=4_096)
def _glob(pattern: str) -> re.Pattern[str]:
    # The names are a server's. What stands between two stars is looked for once, at its first place, and that is not
    # taken back (an atomic group), so no name keeps a pattern busy for longer than its length.
    first, *others = ("".join(map(_literal, part)) for part in re.split(r"\*+", pattern))
    if not others:
        return re.compile(first + r"\Z", re.DOTALL)
    *middle, last = others
    return re.compile(first + "".join(f"(?>.*?{part})" for part in middle) + f".*{last}\\Z", re.DOTALL)


def _literal(character: str) -> str:
    return "." if character == "?" else re.escape(character)


ASK_EVERYTHING = Policy(ask=["*"])
"""The policy of a hub that was given none."""
