"""Each kind of process ends with status 2 and the reasons, where it can't work as it is configured."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from workers.ending import EXIT_CONFIGURATION

KINDS = {
    "worker": ("worker", "-P", "gevent"),
    "beat": ("beat",),
    "flower": ("flower",),
}


def run(
    directory: Path, kind: str, document: object, *words: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    (config := directory / "config.json").write_text(json.dumps(document))
    return subprocess.run(
        [sys.executable, "-m", "celery", "-A", "workers", *KINDS[kind], *words],
        env={**os.environ, "CONFIG_PATH": str(config), **environment},
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_mistake_in_the_file_is_named_and_ends_the_process_with_2(tmp_path: Path, kind: str) -> None:
    done = run(tmp_path, kind, {"redis": {"url": "bogus"}, "metrics": {"port": 0}})
    assert done.returncode == EXIT_CONFIGURATION
    lines = [line for line in done.stderr.splitlines() if line.startswith("vmscaler: ")]
    assert len(lines) == 2
    assert any(".redis.url" in line for line in lines)
    assert any(".metrics.port" in line for line in lines)
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("section", "words", "environment", "reason"),
    [
        ({"host": "0.0.0.0"}, (), {}, "authFile"),
        ({}, ("--basic-auth=ada:secret",), {}, "basic_auth"),
        ({}, (), {"FLOWER_UNAUTHENTICATED_API": "true"}, "FLOWER_UNAUTHENTICATED_API"),
    ],
)
def test_a_flower_that_would_be_open_ends_with_2(
    tmp_path: Path,
    section: dict[str, str],
    words: tuple[str, ...],
    environment: dict[str, str],
    reason: str,
) -> None:
    done = run(tmp_path, "flower", {"flower": section}, *words, **environment)
    assert done.returncode == EXIT_CONFIGURATION
    assert reason in done.stderr
    assert "secret" not in done.stderr
    assert "Traceback" not in done.stderr
