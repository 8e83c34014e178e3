"""A tool set as a provider's definitions, made once: equal tools and options give the same bytes, turn after turn."""

from __future__ import annotations

import json
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast

from conduit_actors.adapters import anthropic, bedrock, gemini, openai
from conduit_actors.adapters.deferral import Defer
from conduit_actors.adapters.definitions import Definitions, Strict
from conduit_actors.adapters.examples import InputExamples
from conduit_actors.adapters.profiles import ProfileLike, profile_of
from conduit_actors.adapters.schemas.anthropic_strict import Budgets
from conduit_actors.errors import ConfigurationError
from conduit_actors.toolset import ToolSet
from conduit_telemetry import notice

Provider: TypeAlias = Literal["anthropic", "openai", "gemini", "bedrock"]
Api: TypeAlias = Literal["chat", "responses"] | None

TOOL_LIMITS: dict[str, int | None] = {"openai": 128, "gemini": 512, "anthropic": 10_000, "bedrock": None}
"""Tools per request: OpenAI's is reported, not documented; Gemini's and Anthropic's are documented (2026-12-01)."""

_TAKES = {
    "anthropic": {"defer", "input_examples", "eager_input_streaming", "tool_search", "budgets"},
    "openai": {"defer", "namespaces", "output_schemas", "profile"},
    "gemini": {"output_schemas"},
    "bedrock": set[str](),
}
_made: weakref.WeakKeyDictionary[ToolSet, dict[object, Definitions]] = weakref.WeakKeyDictionary()


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How definitions are written; see the provider modules' ``tools``.

    Attributes:
        strict: None: "auto" for OpenAI, which is what its API is best asked for, and False for Anthropic, where strict
            mode has budgets and keeps schemas.
        tool_limit: how many tools a request may have; None: `TOOL_LIMITS`, or the profile's.
    """

    strict: Strict | None = None
    cache_control: anthropic.CacheControl = None
    description_limit: int | None = None
    dialect: Literal["json", "openapi"] = "json"
    defer: Defer = False
    tool_search: anthropic.ToolSearch = "bm25"
    budgets: Budgets | None = None
    input_examples: InputExamples | None = None
    eager_input_streaming: bool = False
    namespaces: bool = False
    output_schemas: bool = False
    profile: ProfileLike = None
    tool_limit: int | None = None

    def check(self, provider: Provider) -> None:
        """Return if the provider has all options that are set.

        Raises:
            ConfigurationError: it has not.
        """
        defaults = Options()
        for name in sorted(set[str]().union(*_TAKES.values()) - _TAKES[provider]):
            if getattr(self, name) != getattr(defaults, name):
                hint = "; search=True works with every provider" if name == "defer" else ""
                raise ConfigurationError(f"{provider} has no {name}{hint}")

    def key(self, toolset: ToolSet) -> object:
        """Equal for options that give the same definitions."""
        mark = json.dumps(self.cache_control, sort_keys=True) if isinstance(self.cache_control, Mapping) else None
        later = self.defer if isinstance(self.defer, (bool, str)) else tuple(self.defer)
        examples = None if self.input_examples is None else json.dumps(self.input_examples, sort_keys=True)
        servers = tuple(sorted(toolset.server_info.items())) if self.namespaces else ()
        return (
            *(self.strict, mark or self.cache_control, self.description_limit, self.dialect, later, self.tool_search),
            *(self.budgets, examples, self.eager_input_streaming, self.namespaces, self.output_schemas, self.profile),
            servers,
        )


def render(toolset: ToolSet, provider: Provider, api: Api, options: Options) -> Definitions:
    """The definitions of a tool set. Made once for all tool sets that are equal, so principals share them.

    Raises:
        ConfigurationError: an option is not the provider's, or has no such value.
    """
    key = (provider, api, options.key(toolset))
    known = _made.setdefault(toolset, {})
    if key not in known:
        known[key] = _render(toolset, provider, api, options)
        for fallback in known[key].fallbacks:
            tool = toolset.get(fallback.name)
            server_id = None if tool is None else tool.server_id
            notice("strict_fallback", server_id=server_id, tool=fallback.name, reason=fallback.reason)
    return known[key]


def _render(toolset: ToolSet, provider: Provider, api: Api, options: Options) -> Definitions:
    cut: dict[str, Any] = {}
    if options.description_limit is not None:
        cut["description_limit"] = options.description_limit
    if provider == "anthropic":
        return anthropic.tools(
            toolset,
            options.cache_control,
            strict=options.strict or False,
            budgets=options.budgets,
            defer=options.defer,
            tool_search=options.tool_search,
            input_examples=options.input_examples,
            eager_input_streaming=options.eager_input_streaming,
            **cut,
        )
    if provider == "openai":
        return openai.tools(
            toolset,
            api=cast("openai.Api", api),
            strict="auto" if options.strict is None else options.strict,
            defer=options.defer,
            namespaces=options.namespaces,
            output_schemas=options.output_schemas,
            profile=options.profile,
            **cut,
        )
    if provider == "gemini":
        return gemini.tools(toolset, dialect=options.dialect, output_schemas=options.output_schemas, **cut)
    return bedrock.tools(toolset, **cut)


def counts_of(made: Definitions) -> dict[str, int]:
    """How many tools there are, and how many of them are strict, deferred, changed, fell back or were left out."""
    tools = [one for outer in made for one in cast("list[dict[str, Any]]", outer.get("tools", [outer]))]
    bodies = [cast("dict[str, Any]", one.get("function", one)) for one in tools]
    return {
        "tools": sum(not _is_search(one) for one in bodies),
        "strict": sum(one.get("strict") is True for one in bodies),
        "deferred": sum("defer_loading" in one for one in bodies),
        "changed": len(made.changes),
        "fallbacks": len(made.fallbacks),
        "excluded": len(made.excluded),
    }


def _is_search(definition: dict[str, Any]) -> bool:
    return str(definition.get("type", "")).startswith("tool_search")


def limit_of(provider: Provider, options: Options) -> int | None:
    """How many tools a request may have, as far as is known."""
    if options.tool_limit is not None:
        return options.tool_limit
    if options.profile is not None:
        return profile_of(options.profile).max_tools
    return TOOL_LIMITS[provider]


def warnings_of(provider: Provider, count: int, options: Options) -> tuple[str, ...]:
    """What may cost the request, in words."""
    limit = limit_of(provider, options)
    if limit is None or count <= limit:
        return ()
    return (f"{count} tools: {provider} is known to refuse a request with more than {limit}; see limit=",)
