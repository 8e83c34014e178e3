"""Tool calling in two calls: `tools` lists, `execute_tool_calls` runs and answers. Here errors become results, once."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, cast

import anyio

from conduit_actors.adapters import anthropic, bedrock, gemini, openai
from conduit_actors.adapters.content import Structured
from conduit_actors.adapters.definitions import Definitions, Fallback, prefixed
from conduit_actors.adapters.parsing import Parsed, Rejected
from conduit_actors.errors import ConduitError, ConfigurationError, Denied, ProtocolError
from conduit_actors.results import Outcome, ToolCall
from conduit_actors.sources import OnProgress, Shape, Source, resolve
from conduit_actors.toolset import ExcludedTool, ToolSet
from conduit_telemetry import notice, turn_span

logger = logging.getLogger("conduit_actors.adapters")

Provider: TypeAlias = Literal["anthropic", "openai", "gemini", "bedrock"]
Api: TypeAlias = Literal["chat", "responses"] | None

_rendered: weakref.WeakKeyDictionary[ToolSet, dict[object, Definitions]] = weakref.WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class Listing:
    """The tools as a provider takes them, and what is needed to run its calls. A snapshot: it never changes.

    Attributes:
        tools: the definitions, in a stable order.
        toolset: what the model is offered; calls are looked up here only.
        null_paths: exposed name -> where strict mode has the model send null for "left out".
        fallbacks: tools that could not be strict, and why.
        excluded: tools that are not offered, and why.
        changes: exposed name -> what was changed in its schema.
        warnings: limits of the provider that the list comes near or exceeds.
    """

    tools: list[dict[str, Any]]
    toolset: ToolSet
    null_paths: Mapping[str, Sequence[Sequence[str]]] = field(default_factory=dict[str, Sequence[Sequence[str]]])
    fallbacks: Sequence[Fallback] = ()
    excluded: Sequence[ExcludedTool] = ()
    changes: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    warnings: Sequence[str] = ()
    source: Any = field(default=None, repr=False)
    provider: Provider = "anthropic"
    api: Api = None
    principal: str | None = None

    async def execute(self, response: object, **options: Any) -> ToolCallResults:
        """`execute_tool_calls` with this listing's source, provider, tool set, null paths and principal."""
        known: dict[str, Any] = {
            "toolset": self.toolset,
            "api": self.api,
            "null_paths": self.null_paths,
            "principal": self.principal,
        }
        return await execute_tool_calls(self.source, self.provider, response, **{**known, **options})


@dataclass(frozen=True, slots=True)
class ToolCallResults:
    """The answers to one turn.

    Attributes:
        results: one per call, in the model's order, in the provider's shape.
        halted: an approver asked the agent loop to stop; the answers are complete all the same.
        outcomes: what each answer was made of: a `ToolResult` or a `ConduitError`.
        server_ids: the servers whose output is in the results, for the next turn's ``taint``.
    """

    results: list[dict[str, Any]]
    halted: bool = False
    outcomes: list[Outcome] = field(default_factory=list[Outcome])
    server_ids: tuple[str, ...] = ()


TOOL_LIMITS = {"openai": 128, "gemini": 512, "anthropic": 10_000, "bedrock": None}
"""Tools per request: OpenAI's is reported, not documented; Gemini's and Anthropic's are documented (2026-12-01)."""


async def tools(
    source: Source | str,
    provider: Provider,
    *,
    api: Api = None,
    principal: str | None = None,
    strict: Literal["auto"] | bool = "auto",
    cache_control: anthropic.CacheControl = None,
    prefix: str | None = None,
    limit: int | None = None,
    description_limit: int | None = None,
    dialect: Literal["json", "openapi"] = "json",
) -> Listing:
    """List a source's tools as a provider's tool definitions.

    Args:
        source: a hub, a client, or the name of one.
        api: "chat" or "responses"; needed for OpenAI.
        principal: on whose behalf.
        strict: OpenAI's strict mode, see `openai.tools`.
        cache_control: Anthropic's prompt caching, see `anthropic.tools`.
        prefix: put before each name; for a client's tools.
        limit: offer at most so many; the rest is in `Listing.excluded`.
        description_limit: characters of a description; None: the provider's.
        dialect: Gemini's, see `gemini.tools`.

    Raises:
        ConfigurationError: the provider or an option is not known, or the source is not open.
    """
    _check(provider, api)
    found = resolve(source)
    toolset = await found.list_tools(principal=principal)
    left_out: list[ExcludedTool] = []
    if prefix:
        toolset = prefixed(toolset, prefix)
    if limit is not None and len(toolset) > limit:
        left_out = [ExcludedTool(tool.server_id, tool.tool, f"more than {limit} tools") for tool in toolset[limit:]]
        toolset = ToolSet(
            toolset[:limit],
            excluded=toolset.excluded,
            namespaced=toolset.namespaced,
            server_info=toolset.server_info,
        )
    made = _render(toolset, provider, api, strict, cache_control, description_limit, dialect)
    return Listing(
        tools=list(made),
        toolset=toolset,
        null_paths=made.null_paths,
        fallbacks=tuple(made.fallbacks),
        excluded=(*toolset.excluded, *left_out, *made.excluded),
        changes=made.changes,
        warnings=_warnings(provider, made),
        source=found,
        provider=provider,
        api=api,
        principal=principal,
    )


def _render(
    toolset: ToolSet,
    provider: Provider,
    api: Api,
    strict: Literal["auto"] | bool,
    cache_control: anthropic.CacheControl,
    description_limit: int | None,
    dialect: Literal["json", "openapi"],
) -> Definitions:
    """Definitions are made once per tool set and options: turn after turn they are the same bytes."""
    mark = tuple(sorted(cache_control.items())) if isinstance(cache_control, Mapping) else cache_control
    key = (provider, api, strict, mark, description_limit, dialect)
    cached = _rendered.setdefault(toolset, {})
    if key not in cached:
        cut: dict[str, Any] = {} if description_limit is None else {"description_limit": description_limit}
        if provider == "anthropic":
            cached[key] = anthropic.tools(toolset, cache_control, **cut)
        elif provider == "openai":
            cached[key] = openai.tools(toolset, api=cast("openai.Api", api), strict=strict, **cut)
        elif provider == "gemini":
            cached[key] = gemini.tools(toolset, dialect=dialect, **cut)
        else:
            cached[key] = bedrock.tools(toolset, **cut)
        for fallback in cached[key].fallbacks:
            tool = toolset.get(fallback.name)
            server_id = None if tool is None else tool.server_id
            notice("strict_fallback", server_id=server_id, tool=fallback.name, reason=fallback.reason)
    return cached[key]


def _warnings(provider: Provider, made: Definitions) -> tuple[str, ...]:
    limit = TOOL_LIMITS[provider]
    if limit is None or len(made) <= limit:
        return ()
    return (f"{len(made)} tools: {provider} is known to refuse a request with more than {limit}; see limit=",)


async def execute_tool_calls(
    source: Source | str,
    provider: Provider,
    response: object,
    *,
    toolset: ToolSet | None = None,
    api: Api = None,
    null_paths: Mapping[str, Sequence[Sequence[str]]] | None = None,
    max_concurrency: int | None = None,
    call_timeout: float = 300.0,
    structured: Structured | None = None,
    shape: Shape = "llm",
    error_prefix: str = openai.ERROR_PREFIX,
    principal: str | None = None,
    assigns: Mapping[str, Any] | None = None,
    taint: Collection[str] = (),
    timeout: float | None = None,
    meta: Mapping[str, Any] | None = None,
    on_progress: OnProgress | None = None,
    index: int = 0,
    multimodal: bool = False,
) -> ToolCallResults:
    """Run all calls of a model's turn and answer every one of them, in the model's order.

    A call that names no offered tool, or has no object for arguments, is answered with an error and sent to nobody.

    Args:
        response: the provider's response, as a dict or as its SDK's object.
        toolset: what the model was offered, from `tools`; None: all that is known.
        null_paths: from `tools`; without them OpenAI's strict nulls are taken as they are.
        max_concurrency: calls of this turn that run at once; None: as many as the source's own limits let.
        call_timeout: seconds for each call, approval and hooks included.
        structured: what becomes of structured content; None: the provider's default.
        error_prefix: how a failure's text starts for OpenAI.
        taint: servers whose output is in the model's context already.
        index: which choice or candidate.
        multimodal: Gemini 3: images and PDFs beside the response.

    Raises:
        ConfigurationError: the caller's own misuse. Nothing else is raised, whatever the calls do.
    """
    _check(provider, api)
    if max_concurrency is not None and max_concurrency < 1:
        raise ConfigurationError("max_concurrency must be at least 1")
    found = resolve(source)
    offered = toolset
    if offered is None:
        await found.list_tools(principal=principal)  # wakes lazy servers
        offered = found.known_tools(principal)
    parsed = _parse(provider, response, offered, api, null_paths, index)
    outcomes: list[Outcome | None] = [one.error if isinstance(one, Rejected) else None for one in parsed]
    places = None if max_concurrency is None else anyio.CapacityLimiter(max_concurrency)

    async def run(position: int, call: ToolCall) -> None:
        if places is None:
            outcomes[position] = await outcome(call)
        else:
            async with places:
                outcomes[position] = await outcome(call)

    async def outcome(call: ToolCall) -> Outcome:
        try:
            return await found.call_tool(
                call.name,
                call.arguments,
                toolset=offered,
                principal=principal,
                assigns=assigns,
                taint=taint,
                timeout=timeout,
                call_timeout=call_timeout,
                meta=meta,
                on_progress=on_progress,
                shape=shape,
                call_id=call.call_id,
            )
        except ConfigurationError:
            raise
        except ConduitError as error:
            return error
        except Exception:
            # A fault of ours or of the host's code: it must not cost the other calls their answers.
            logger.exception("the call of %s failed in an unforeseen way", call.name)
            return ProtocolError("the call failed inside the host", server_id=call.server_id, tool=call.tool)

    with turn_span(provider, len(parsed)):
        calls = [(position, one) for position, one in enumerate(parsed) if isinstance(one, ToolCall)]
        if len(calls) == 1:
            await run(*calls[0])
        else:
            try:
                async with anyio.create_task_group() as tasks:
                    for position, call in calls:
                        tasks.start_soon(run, position, call)
            except BaseExceptionGroup as group:
                misuse = group.subgroup(ConfigurationError)
                if misuse is not None:
                    raise ConfigurationError(str(misuse.exceptions[0])) from group
                raise
    finished = [cast("Outcome", one) for one in outcomes]
    results = [
        _answer(provider, call, one, api, structured, error_prefix, multimodal)
        for call, one in zip(parsed, finished, strict=True)
    ]
    servers = [
        one.server_id
        for one, result in zip(parsed, finished, strict=True)
        if isinstance(one, ToolCall) and not isinstance(result, ConduitError)
    ]
    halted = any(isinstance(one, Denied) and one.halt for one in finished)
    return ToolCallResults(results, halted, finished, tuple(dict.fromkeys(servers)))


def _parse(
    provider: Provider,
    response: object,
    toolset: ToolSet,
    api: Api,
    null_paths: Mapping[str, Sequence[Sequence[str]]] | None,
    index: int,
) -> list[Parsed]:
    if provider == "anthropic":
        return anthropic.parse(response, toolset)
    if provider == "openai":
        return openai.parse(response, toolset, api=cast("openai.Api", api), null_paths=null_paths, index=index)
    if provider == "gemini":
        return gemini.parse(response, toolset, index=index)
    return bedrock.parse(response, toolset)


def _answer(
    provider: Provider,
    call: Parsed,
    outcome: Outcome,
    api: Api,
    structured: Structured | None,
    error_prefix: str,
    multimodal: bool,
) -> dict[str, Any]:
    if provider == "anthropic":
        return anthropic.tool_result(call.call_id, outcome, structured or "auto")
    if provider == "openai":
        return openai.tool_output(
            call.call_id,
            outcome,
            api=cast("openai.Api", api),
            structured=structured or "auto",
            error_prefix=error_prefix,
        )
    if provider == "gemini":
        return gemini.respond(
            call.name, call.extra.get("id"), outcome, structured=structured or "prefer", multimodal=multimodal
        )
    return bedrock.tool_result(call.call_id, outcome, structured or "auto")


def _check(provider: object, api: object) -> None:
    if provider not in ("anthropic", "openai", "gemini", "bedrock"):
        raise ConfigurationError(f"unknown provider {provider!r}: anthropic, openai, gemini or bedrock")
    if provider == "openai":
        if api not in ("chat", "responses"):
            raise ConfigurationError("provider 'openai' needs api='chat' or api='responses'")
    elif api is not None:
        raise ConfigurationError(f"api= is for OpenAI; {provider} has one API only")
