"""Exposed names: what a tool is called towards every provider.

One form is legal everywhere: ``^[A-Za-z_][A-Za-z0-9_-]{0,63}$``. It is the intersection of OpenAI's rule
(``[A-Za-z0-9_-]``, at most 64), the one in Anthropic's documentation (the same) and Gemini's (must start with a
letter or an underscore), all as of 2026-12-01. The way back from a name to its server and raw tool is the tool set,
never a parse of the name.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from itertools import count

MAX_NAME_CHARS = 64
SEPARATOR = "__"
NAME_PATTERN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}\Z")

_ILLEGAL = re.compile(r"[^A-Za-z0-9_-]")
_HASH_CHARS = 8


def sanitise(text: str) -> str:
    """`text` with every character that some provider refuses replaced by an underscore, and a legal first one."""
    clean = _ILLEGAL.sub("_", text)
    return clean if clean[:1].isalpha() or clean[:1] == "_" else "_" + clean


def base_name(server_id: str, tool: str, *, namespaced: bool) -> str:
    """The name before it is made short and unique; it may be too long."""
    return sanitise(f"{server_id}{SEPARATOR}{tool}" if namespaced else tool)


def with_hash(name: str, server_id: str, tool: str, *, salt: int = 0) -> str:
    """`name`, cut if need be, with a hash of the tool's origin, the same in every process and for ever."""
    # The length of the id keeps ("a", "b/c") and ("a/b", "c") apart whatever characters they hold.
    origin = f"{len(server_id)}:{server_id}/{tool}{salt or ''}".encode("utf-8", "surrogatepass")
    digest = hashlib.sha256(origin).hexdigest()[:_HASH_CHARS]
    return f"{name[: MAX_NAME_CHARS - _HASH_CHARS - 1]}_{digest}"


def assign(
    origins: Sequence[tuple[str, str]], *, namespaced: bool = True, exclude_collisions: bool = False
) -> list[str | None]:
    """Give each (server id, raw tool name) its exposed name.

    The result depends on the set of origins only, not on their order: every member of a group that would share one
    name gets its hash. With `exclude_collisions` the first of such a group keeps the plain name and the later ones
    get None. The same origin given twice gets None the second time.
    """
    bases = [base_name(server_id, tool, namespaced=namespaced) for server_id, tool in origins]
    plain = [
        base if len(base) <= MAX_NAME_CHARS else with_hash(base, *origin)
        for base, origin in zip(bases, origins, strict=True)
    ]
    first_index = _first_indexes(origins)
    unique = [plain[index] for index in first_index.values()]
    times = Counter(unique)
    taken: set[str] = {name for name, seen in times.items() if seen == 1}
    names: list[str | None] = []
    for index, (origin, name) in enumerate(zip(origins, plain, strict=True)):
        if first_index[origin] != index:
            names.append(None)
        elif times[name] == 1:
            names.append(name)
        elif exclude_collisions:
            names.append(None if name in taken else name)
            taken.add(name)
        else:
            # Only a name that somebody chose to look like this hash can be in the way; salts step around it.
            hashed = next(h for salt in count() if (h := with_hash(name, *origin, salt=salt)) not in taken)
            taken.add(hashed)
            names.append(hashed)
    return names


def _first_indexes(origins: Sequence[tuple[str, str]]) -> dict[tuple[str, str], int]:
    first: dict[tuple[str, str], int] = {}
    for index, origin in enumerate(origins):
        first.setdefault(origin, index)
    return first
