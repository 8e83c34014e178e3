"""`Conversation`: what has to be kept from one turn of a model to the next.

conversation = await hub.conversation("anthropic", principal=user)
while True:
    response = ask_the_model(tools=conversation.tools, messages=messages)
    results = await conversation.execute(response)
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, Self

from conduit_actors.adapters import anthropic
from conduit_actors.adapters.facade import Api, Listing, Provider, ToolCallResults, execute_tool_calls, tools
from conduit_actors.errors import ConfigurationError
from conduit_actors.sources import Source
from conduit_actors.toolset import ToolSet

_KEPT = {"source", "provider", "response", "toolset", "api", "null_paths", "principal", "taint", "search", "dialect"}
_OPTIONS = frozenset(inspect.signature(execute_tool_calls).parameters) - _KEPT
_LISTING_OPTIONS = frozenset(inspect.signature(tools).parameters) - _KEPT | {"search", "dialect"}


class Conversation:
    """One model's conversation with a hub's or a client's tools. Made by ``await hub.conversation(...)``.

    The tools stay what the model was offered first, so that a provider's prompt cache holds; `refresh` lists them
    anew. The servers whose results the model has read are the taint of the next turn.
    """

    def __init__(
        self, source: Source, listing: Listing, listing_options: Mapping[str, Any], options: Mapping[str, Any]
    ) -> None:
        self._source = source
        self._listing = listing
        self._listing_options = dict(listing_options)
        self._options = dict(options)
        self._taint: dict[str, None] = {}

    @classmethod
    async def start(
        cls,
        source: Source,
        provider: Provider,
        *,
        api: Api = None,
        principal: str | None = None,
        strict: Literal["auto"] | bool | None = None,
        cache_control: anthropic.CacheControl = None,
        prefix: str | None = None,
        limit: int | None = None,
        taint: Collection[str] = (),
        **options: Any,
    ) -> Self:
        """List the tools and start with them.

        Args:
            taint: servers whose output is in the model's context from the start.
            options: those of `adapters.tools`, e.g. `search` or `defer`, and, for each turn, those of
                `adapters.execute_tool_calls`, e.g. `call_timeout` or `assigns`.

        Raises:
            ConfigurationError: the provider or an option is not known, or the source is not open.
        """
        unknown = sorted(options.keys() - _OPTIONS - _LISTING_OPTIONS)
        if unknown:
            raise ConfigurationError(f"a conversation has no option {', '.join(unknown)}")
        listing_options: dict[str, Any] = {
            "provider": provider,
            "api": api,
            "principal": principal,
            "strict": strict,
            "cache_control": cache_control,
            "prefix": prefix,
            "limit": limit,
            **{name: value for name, value in options.items() if name in _LISTING_OPTIONS},
        }
        each_turn = {name: value for name, value in options.items() if name in _OPTIONS}
        conversation = cls(source, await tools(source, **listing_options), listing_options, each_turn)
        conversation.add_taint(taint)
        return conversation

    @property
    def listing(self) -> Listing:
        """The whole listing: fallbacks, tools that are left out, warnings."""
        return self._listing

    @property
    def tools(self) -> list[dict[str, Any]]:
        """The definitions to send with each request."""
        return self._listing.tools

    @property
    def toolset(self) -> ToolSet:
        """What the model is offered; its calls are looked up here only."""
        return self._listing.toolset

    @property
    def null_paths(self) -> Mapping[str, Sequence[Sequence[str]]]:
        """Where OpenAI's strict mode has the model send null for "left out"."""
        return self._listing.null_paths

    @property
    def taint(self) -> frozenset[str]:
        """The servers whose output the model has read."""
        return frozenset(self._taint)

    def add_taint(self, server_ids: Collection[str]) -> None:
        """Count servers as read, e.g. for their text in a prompt or a resource."""
        self._taint.update(dict.fromkeys(server_ids))

    async def refresh(self) -> bool:
        """List the tools anew; says whether they differ. What the model calls next is looked up in the new list."""
        before = self._listing.toolset
        self._listing = await tools(self._source, **self._listing_options)
        return self._listing.toolset != before

    async def execute(self, response: object, **options: Any) -> ToolCallResults:
        """Run and answer all calls of one turn. `options` are for this turn only.

        The calls of one turn run at once and see the taint of the turns before.

        Raises:
            ConfigurationError: the caller's own misuse.
        """
        results = await self._listing.execute(response, taint=self.taint, **{**self._options, **options})
        self.add_taint(results.server_ids)
        return results
