"""What a log says of an exception in the host's own code: policy, approver, store."""

from __future__ import annotations

import traceback
from pathlib import PurePath


def kind_and_place(error: BaseException) -> str:
    """The type of an exception and where it was raised. Never its text, which may hold arguments or secrets."""
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return type(error).__name__
    last = frames[-1]
    return f"{type(error).__name__} at {PurePath(last.filename).name}:{last.lineno} in {last.name}"
