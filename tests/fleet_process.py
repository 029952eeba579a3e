"""Starts `vmscaler sim` as a process, on free ports, for tests."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import requests

_COMMAND = [sys.executable, "-c", "from app.cli.sim import sim_command; sim_command()"]
PATIENCE_S = 60.0
"""For anything that happens by itself; the machine may be busy."""


class FleetProcess:
    """A running fleet; `stop` ends it."""

    def __init__(self, *options: str, vms: int = 6, control: str = "127.0.0.1:0") -> None:
        command = [
            *_COMMAND,
            "--vms",
            str(vms),
            "--control",
            control,
            "--refuse-rate",
            "0",
            "--partial-rate",
            "0",
        ]
        self.process = subprocess.Popen(
            [*command, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if "://" not in line:
            raise AssertionError(f"the fleet did not start: {line}{self.process.communicate()[1]}")
        self.url = line.split()[-1]

    def api(self, method: str, path: str, *, status: int = 200, **options: Any) -> Any:
        """One request to the control interface; its JSON."""
        answer = requests.request(method, self.url + path, timeout=60, **options)
        assert answer.status_code == status, answer.text
        return answer.json()

    def vms(self) -> dict[str, dict[str, Any]]:
        """All VMs by key."""
        listed = self.api("GET", "/v1/vms")["vms"]
        return {f"{vm['namespace']}/{vm['name']}": vm for vm in listed}

    def vm(self, key: str) -> dict[str, Any]:
        """One VM, with what its model says."""
        found: dict[str, Any] = self.api("GET", f"/v1/vms/{key}")
        return found

    def ask(
        self, vm: dict[str, Any], cpu_m: int, mem: int, *, token: int = 1, status: int = 202
    ) -> dict[str, Any]:
        """Ask for a size on the basis of what `vm` says."""
        body = {"cpu_m": cpu_m, "mem": mem, "basis": vm["use"]}
        path = f"/v1/vms/{vm['namespace']}/{vm['name']}/size"
        answer: dict[str, Any] = self.api(
            "PUT", path, status=status, json=body, headers={"X-Vmscaler-Token": str(token)}
        )
        return answer

    def fault(self, name: str, **options: Any) -> Any:
        """Switch a fault on (or off, with `on=False`)."""
        return self.api("POST", "/v1/faults", json={"fault": name, **options})

    def stop(self, number: int = signal.SIGTERM) -> int:
        """End it by a signal; its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        self.process.communicate(timeout=60)
        return self.process.returncode


def until(holds: Callable[[], bool], what: str) -> None:
    """Wait until it holds; fails with `what` after a long time."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        if holds():
            return
        time.sleep(0.05)
    raise AssertionError(f"never came: {what}")


def saved_state(directory: Path) -> Path:
    """Where a fleet keeps its state."""
    return directory / "fleet.json"
