"""The demo's processes with every VM recorded to files and faults switched on at will.

By hand, for longer: `python -m tests.recorded_demo SECONDS` runs it with faults, one after the other and all
at once, kills a worker now and then, and says what `vmscaler replay --check` says.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import requests

from app.adapters.clock import SystemClock
from app.adapters.embedded_redis import find_redis_server, is_answering
from app.adapters.processes import GuardedLauncher
from app.cli.demo_setup import DemoSetup, prepare, process_specs, redis_spec
from app.services.process_keeping import ProcessKeeper
from app.simulation.faults import Fault


class RecordedDemo:
    """A running demo; `recordings` is where the workers' files are."""

    def __init__(self, setup: DemoSetup, keeper: ProcessKeeper) -> None:
        self.setup = setup
        self.keeper = keeper
        self.recordings = setup.directory / "recordings"

    def start(self) -> None:
        config = self.setup.directory / "config.json"
        document = json.loads(config.read_text())
        document["recording"] = {"vms": ["*"], "directory": str(self.recordings), "maxBytes": 2**28}
        config.write_text(json.dumps(document))
        self.keeper.start(redis_spec(self.setup, find_redis_server()))
        self.until(lambda: is_answering(self.setup.redis_socket))
        for spec in process_specs(self.setup):
            if spec.name != "flower":
                self.keeper.start(spec)

    def fault(self, fault: Fault, fraction: float) -> None:
        """Switch a fault on for a fraction of the VMs; 0 switches it off."""
        token = (self.setup.directory / "sim.token").read_text().strip()
        url = f"http://127.0.0.1:{self.setup.ports.control.number}/v1/faults"
        body = {"fault": fault.value, "on": fraction > 0, "fraction": fraction}
        requests.post(
            url, json=body, headers={"Authorization": f"Bearer {token}"}, timeout=10
        ).raise_for_status()

    def kill_worker(self) -> None:
        """Kill the first worker; it is started again, and its VMs get another owner meanwhile."""
        pid = next(child.pid for child in self.keeper.states() if child.name == "worker1")
        assert pid is not None
        os.kill(pid, signal.SIGKILL)

    def run_for(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.keeper.tick()
            time.sleep(0.2)

    def until(self, condition: object, timeout_s: float = 60.0) -> None:
        end = time.monotonic() + timeout_s
        while not condition():  # type: ignore[operator]
            assert time.monotonic() < end, "timed out"
            self.keeper.tick()
            time.sleep(0.1)

    def files(self) -> list[Path]:
        return sorted(self.recordings.glob("*/*.jsonl")) if self.recordings.is_dir() else []


@contextmanager
def recorded_demo(vms: int) -> Iterator[RecordedDemo]:
    """A demo with all its processes, until the block ends."""
    setup = prepare(vms, os.environ)
    launcher = GuardedLauncher(setup.directory)
    keeper = ProcessKeeper(launcher, SystemClock(), sleep=time.sleep)
    demo = RecordedDemo(setup, keeper)
    try:
        demo.start()
        yield demo
        keeper.stop(8.0)
    finally:
        keeper.kill()
        launcher.close()
        shutil.rmtree(setup.directory, ignore_errors=True)


def check(files: list[Path]) -> tuple[int, str]:
    """Status and last line of `vmscaler replay --check` on the files."""
    command = [sys.executable, "-m", "app.main", "replay", "--check", *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    lines = (done.stdout + done.stderr).splitlines()
    return done.returncode, lines[-1] if lines else ""


def ops(files: list[Path]) -> Counter[str]:
    """How often each event is in the files."""
    scripts = (json.loads(line) for file in files for line in file.read_text().splitlines())
    return Counter(step["event"]["op"] for script in scripts for step in script["steps"])


def record(demo: RecordedDemo, vm: str, seconds: int, file: Path) -> subprocess.Popen[bytes]:
    """`vmscaler record` beside the demo."""
    command = [sys.executable, "-m", "app.main", "record", vm, "--for", f"{seconds}s", "-o", str(file)]
    return subprocess.Popen(command, env=dict(demo.setup.environment))


def main(seconds: int) -> None:
    """Faults one after the other for half the VMs, then all at once, at last for all; workers are killed."""
    with recorded_demo(24) as demo:
        demo.until(lambda: len(demo.files()) >= 24)
        names = sorted({file.parent.name.replace("+", "/") for file in demo.files()})
        followed = {
            vm: demo.setup.directory / f"{vm.replace('/', '-')}.jsonl" for vm in names[:4] + names[-4:]
        }
        commands = [record(demo, vm, seconds, file) for vm, file in followed.items()]
        turn = seconds / (2 * len(Fault))
        for fault in Fault:
            demo.fault(fault, 0.1 if fault is Fault.VM_DELETED else 0.5)
            demo.run_for(turn)
            if fault in (Fault.MONITOR_SILENT, Fault.PATCH_PARTIAL):
                demo.kill_worker()
        demo.run_for(seconds / 4)
        for fault in Fault:
            demo.fault(fault, 0.3 if fault is Fault.VM_DELETED else 1.0)
        demo.run_for(seconds / 8)
        demo.kill_worker()
        demo.run_for(seconds / 8 + 20)
        statuses = [command.wait(60) for command in commands]
        demo.keeper.stop(8.0)
        say(f"{len(demo.files())} files, {sum(file.stat().st_size for file in demo.files())} bytes")
        say(f"files: {check(demo.files())}")
        say(f"record: {statuses} {check(list(followed.values()))}")
        say(f"owners: {[file.read_text().count(chr(10)) for file in followed.values()]}")
        say(f"{dict(ops(demo.files()))}")
        logs = [line for log in demo.setup.logs.glob("worker*.log") for line in log.read_text().splitlines()]
        around = [
            logs[max(at - 2, 0) : at + 40] for at, line in enumerate(logs) if line.startswith("Traceback")
        ]
        say(f"log: {[line for line in logs if 'recording not' in line]} {len(around)} tracebacks")
        say("\n".join(around[0] if around else []))


def say(text: str) -> None:
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    main(int(sys.argv[1]))
