"""What servers that speak OpenAI's Chat Completions take differently. Declarative: a few flags for each.

Sources (read 2026-12-01): the vendors' own Python clients (mistralai 3.7.0, cohere 7.3.1, ollama 0.6.3, groq 1.7.0) and
pydantic-ai's provider notes. What no source settles has OpenAI's value; pass a `Profile` of your own to say otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from conduit_actors.errors import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """How a server's function definitions differ from OpenAI's.

    Attributes:
        strict: the server knows a function's ``strict``; else the key is left out, and no schema is converted.
        dropped: keywords that its strict mode refuses; they only narrow, and the tool's server still checks them.
        max_tools: functions in a request; None: not known.
    """

    strict: bool = True
    dropped: frozenset[str] = frozenset()
    max_tools: int | None = None


PROFILES: dict[str, Profile] = {
    # Not documented: sending a key that a server does not know may cost the request, so it is left out.
    "mistral": Profile(strict=False),
    "ollama": Profile(strict=False),
    "vllm": Profile(strict=False),
    # strict_tools is a setting of the whole request there.
    "cohere": Profile(strict=False),
    # 128 functions: its own client's documentation.
    "groq": Profile(strict=False, max_tools=128),
    # Its strict mode documents lengths as unsupported.
    "deepseek": Profile(dropped=frozenset({"minLength", "maxLength"})),
}

ProfileLike: TypeAlias = Profile | str | None


def profile_of(given: ProfileLike) -> Profile:
    """The profile of that name, or the profile itself; None: OpenAI.

    Raises:
        ConfigurationError: no profile has the name.
    """
    if given is None:
        return Profile()
    if isinstance(given, Profile):
        return given
    if given not in PROFILES:
        raise ConfigurationError(f"unknown profile {given!r}: {', '.join(PROFILES)}, or a Profile of your own")
    return PROFILES[given]


def without(schema: dict[str, Any], dropped: frozenset[str]) -> dict[str, Any]:
    """A strict schema without some narrowing keywords. Names of properties are not keywords."""
    if not dropped:
        return schema
    made: dict[str, Any] = {}
    for key, value in schema.items():
        if key in dropped:
            continue
        if key in ("properties", "$defs", "definitions"):
            named = cast("dict[str, dict[str, Any]]", value)
            made[key] = {name: without(one, dropped) for name, one in named.items()}
        elif key == "anyOf":
            made[key] = [without(one, dropped) for one in cast("list[dict[str, Any]]", value)]
        elif key == "items":
            made[key] = without(cast("dict[str, Any]", value), dropped)
        else:
            made[key] = value
    return made
