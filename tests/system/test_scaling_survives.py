"""The whole fleet of processes: VMs are scaled, also while processes are killed one after the other."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.cli.demo_setup import make_directory
from tests.system.test_demo_leaves_nothing import processes_of

PATIENCE_S = 90.0


class Demo:
    """A demo under way, and what an operator's commands say of it."""

    def __init__(self, runtime: Path, vms: int = 12) -> None:
        self._runtime = runtime
        environment = os.environ | {"XDG_RUNTIME_DIR": str(runtime), "DEMO_SECONDS": "600"}
        command = [sys.executable, "-m", "app.main", "demo", "--vms", str(vms), "--stop-with-parent"]
        self.process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)

    def ask(self, *arguments: str) -> str:
        """A command's output; its exit status is for the operator."""
        (config,) = self._runtime.glob("*/config.json")
        environment = os.environ | {"CONFIG_PATH": str(config)}
        command = [sys.executable, "-m", "app.main", *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60).stdout

    def resizes(self) -> int:
        """Upscales and downscales seen in the observed size, of all VMs."""
        if not list(self._runtime.glob("*/config.json")):
            return 0
        text = self.ask("status", "--json")
        counters = json.loads(text)["counters"] if text else {}
        return int(counters.get("upscales", 0)) + int(counters.get("downscales", 0))

    def pid_of(self, *words: str) -> int:
        """The process whose arguments hold all these words."""
        for pid in processes_of(self._runtime):
            arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if all(word.encode() in arguments for word in words):
                return pid
        raise AssertionError(f"no process with {words}")

    def wait_until(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert self.process.poll() is None, "the demo ended"
            assert time.monotonic() < deadline, f"never happened: {what}"
            time.sleep(0.5)


@pytest.fixture
def demo() -> Iterator[Demo]:
    runtime = make_directory({})
    running = Demo(runtime)
    yield running
    running.process.send_signal(signal.SIGTERM)
    running.process.wait(60)
    for pid in processes_of(runtime):
        os.kill(pid, signal.SIGKILL)
    shutil.rmtree(runtime, ignore_errors=True)


@pytest.mark.timeout(600)
def test_scaling_goes_on_whichever_process_is_killed(demo: Demo) -> None:
    demo.wait_until(lambda: demo.resizes() > 5, "VMs are scaled")
    for words in (("worker1@%h",), ("beat",), ("scheduler",), ("sim",), ("worker2@%h",)):
        before = demo.resizes()
        os.kill(demo.pid_of(*words), signal.SIGKILL)
        demo.wait_until(
            lambda before=before: demo.resizes() > before + 3, f"scaling after the end of {words}"
        )


@pytest.mark.timeout(300)
def test_an_operator_pauses_a_vm_and_reads_why_it_stays(demo: Demo) -> None:
    demo.wait_until(lambda: demo.resizes() > 0, "VMs are scaled")
    rows = json.loads(demo.ask("vm", "list", "--json"))["vms"]
    name = next(row["vm"] for row in rows if row["mode"] == "scale")
    assert "taken up by the owner" in demo.ask("pause", name, "--for", "10m", "--reason", "a test")
    assert "a test" in demo.ask("explain", name)
    assert "paused" in demo.ask("events", name)
    assert "taken up by the owner" in demo.ask("resume", name)
