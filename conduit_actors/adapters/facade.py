"""Tool calling in two calls: `tools` lists, `execute_tool_calls` runs and answers. Here errors become results, once."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import anyio

from conduit_actors.adapters import anthropic, bedrock, gemini, openai
from conduit_actors.adapters.content import Structured
from conduit_actors.adapters.deferral import Defer
from conduit_actors.adapters.definitions import Fallback, Strict, prefixed
from conduit_actors.adapters.examples import InputExamples
from conduit_actors.adapters.parsing import Parsed, Rejected
from conduit_actors.adapters.profiles import ProfileLike
from conduit_actors.adapters.rendering import Api, Options, Provider, counts_of, limit_of, render, warnings_of
from conduit_actors.adapters.schemas.anthropic_strict import Budgets
from conduit_actors.adapters.search import Unwrapped, pair, unwrap
from conduit_actors.errors import ConduitError, ConfigurationError, Denied, ProtocolError
from conduit_actors.results import Outcome, ToolCall, ToolResult
from conduit_actors.sources import OnProgress, Shape, Source, resolve
from conduit_actors.toolset import ExcludedTool, ToolSet
from conduit_telemetry import turn_span

logger = logging.getLogger("conduit_actors.adapters")


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
        warnings: limits of the provider that the list exceeds.
        counts: tools, strict, deferred, changed, fallbacks, excluded (by the provider's rules).
        limit: tools that a request may have, as far as is known.
        search: the tools are the pair that finds and calls all those of the tool set.
    """

    tools: list[dict[str, Any]]
    toolset: ToolSet
    null_paths: Mapping[str, Sequence[Sequence[str]]] = field(default_factory=dict[str, Sequence[Sequence[str]]])
    fallbacks: Sequence[Fallback] = ()
    excluded: Sequence[ExcludedTool] = ()
    changes: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    warnings: Sequence[str] = ()
    counts: Mapping[str, int] = field(default_factory=dict[str, int])
    limit: int | None = None
    search: bool = False
    dialect: Literal["json", "openapi"] = "json"
    structured: Structured | None = None
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
            "search": self.search,
            "dialect": self.dialect,
            "structured": self.structured,
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


async def tools(
    source: Source | str,
    provider: Provider,
    *,
    api: Api = None,
    principal: str | None = None,
    prefix: str | None = None,
    limit: int | None = None,
    search: bool = False,
    strict: Strict | None = None,
    cache_control: anthropic.CacheControl = None,
    description_limit: int | None = None,
    dialect: Literal["json", "openapi"] = "json",
    defer: Defer = False,
    tool_search: anthropic.ToolSearch = "bm25",
    budgets: Budgets | None = None,
    input_examples: InputExamples | None = None,
    eager_input_streaming: bool = False,
    namespaces: bool = False,
    output_schemas: bool = False,
    profile: ProfileLike = None,
    tool_limit: int | None = None,
) -> Listing:
    """List a source's tools as a provider's tool definitions.

    Args:
        source: a hub, a client, or the name of one.
        api: "chat" or "responses"; needed for OpenAI.
        principal: on whose behalf.
        prefix: put before each name; for a client's tools.
        limit: offer at most so many; the rest is in `Listing.excluded`.
        search: offer two tools instead of all: one that finds tools, one that calls them. `Listing.execute` reads
            their calls; each is governed, validated and routed as a call of the tool itself.
        strict: see `openai.tools` and `anthropic.tools`. None: "auto" for OpenAI, False for Anthropic.
        cache_control, tool_search, budgets, input_examples, eager_input_streaming: Anthropic's, see `anthropic.tools`.
        description_limit: characters of a description; None: the provider's.
        dialect: Gemini's, see `gemini.tools`.
        defer: which tools the provider's tool search loads later: Anthropic and OpenAI Responses.
        namespaces, profile: OpenAI's, see `openai.tools`.
        output_schemas: say output schemas: OpenAI Responses and Gemini.
        tool_limit: how many tools a request may have before `Listing.warnings` says so; None: what is known.

    Raises:
        ConfigurationError: the provider or an option is not known, or the source is not open.
    """
    _check(provider, api)
    options = Options(
        strict=strict,
        cache_control=cache_control,
        description_limit=description_limit,
        dialect=dialect,
        defer=defer,
        tool_search=tool_search,
        budgets=budgets,
        input_examples=input_examples,
        eager_input_streaming=eager_input_streaming,
        namespaces=namespaces,
        output_schemas=output_schemas,
        profile=profile,
        tool_limit=tool_limit,
    )
    options.check(provider)
    if search and (defer or namespaces or output_schemas or strict is True):
        raise ConfigurationError("search=True offers two open tools: no defer, namespaces, output_schemas, strict=True")
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
    made = render(pair(toolset) if search else toolset, provider, api, options)
    counts = counts_of(made)
    return Listing(
        tools=list(made),
        toolset=toolset,
        null_paths=made.null_paths,
        fallbacks=tuple(made.fallbacks),
        excluded=(*toolset.excluded, *left_out, *made.excluded),
        changes=made.changes,
        warnings=warnings_of(provider, counts["tools"], options),
        counts=counts,
        limit=limit_of(provider, options),
        search=search,
        dialect=dialect,
        structured="prefer" if output_schemas else None,
        source=found,
        provider=provider,
        api=api,
        principal=principal,
    )


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
    search: bool = False,
    dialect: Literal["json", "openapi"] = "json",
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
        search: the model was offered the pair of ``tools(search=True)``.
        dialect: in which Gemini was offered the tools.

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
    asked = _parse(provider, response, pair(offered) if search else offered, api, null_paths, index, dialect)
    parsed = [unwrap(one, offered) for one in asked] if search else asked
    outcomes: list[Outcome | None] = [_known(one) for one in parsed]
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
        for call, one in zip(asked, finished, strict=True)
    ]
    servers = [
        one.server_id
        for one, result in zip(parsed, finished, strict=True)
        if isinstance(one, ToolCall) and not isinstance(result, ConduitError)
    ]
    halted = any(isinstance(one, Denied) and one.halt for one in finished)
    return ToolCallResults(results, halted, finished, tuple(dict.fromkeys(servers)))


def _known(one: Unwrapped) -> Outcome | None:
    """What needs no call: a refusal, or what a search found."""
    if isinstance(one, Rejected):
        return one.error
    return one if isinstance(one, ToolResult) else None


def _parse(
    provider: Provider,
    response: object,
    toolset: ToolSet,
    api: Api,
    null_paths: Mapping[str, Sequence[Sequence[str]]] | None,
    index: int,
    dialect: Literal["json", "openapi"],
) -> list[Parsed]:
    if provider == "anthropic":
        return anthropic.parse(response, toolset)
    if provider == "openai":
        return openai.parse(response, toolset, api=cast("openai.Api", api), null_paths=null_paths, index=index)
    if provider == "gemini":
        return gemini.parse(response, toolset, dialect=dialect, index=index)
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
