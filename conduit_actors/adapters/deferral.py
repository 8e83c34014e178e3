"""Which tools a provider's tool search loads later, as a host says it."""

from __future__ import annotations

from collections.abc import Collection
from fnmatch import fnmatchcase
from typing import TypeAlias

from conduit_actors.errors import ConfigurationError

Defer: TypeAlias = bool | Collection[str]
"""True: all tools. Otherwise exposed names, or patterns of them (``github__*``)."""


def deferred(names: Collection[str], defer: Defer) -> frozenset[str]:
    """The names that are deferred.

    Raises:
        ConfigurationError: a bare string, which would be taken letter by letter.
    """
    if isinstance(defer, bool):
        return frozenset(names) if defer else frozenset()
    if isinstance(defer, str):
        raise ConfigurationError("defer is True or a list of names and patterns, not a string")
    return frozenset(name for name in names if any(fnmatchcase(name, pattern) for pattern in defer))
