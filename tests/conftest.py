"""Fixtures for all tests. Every asynchronous test runs on asyncio and on trio."""

from __future__ import annotations

import pytest
from hypothesis import settings

# The machines that run this are shared: a slow example is no defect.
settings.register_profile("shared", deadline=None)
settings.load_profile("shared")


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)
