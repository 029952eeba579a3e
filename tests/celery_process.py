"""Starts workers and beats as processes with a configuration of their own, for tests."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.fleet_process import until

QUICK: dict[str, Any] = {
    "ownership": {
        "buckets": 4,
        "leaseDurationSeconds": 3.0,
        "renewEverySeconds": 0.5,
        "giveUpAfterSeconds": 2.0,
    },
    "metrics": {"secondsBetweenRequests": 1.0, "requestTimeoutSeconds": 1.0},
    "web": {"port": 0},
}
"""Short times; no platform is there, so the workers poll empty buckets."""


def write_config(path: Path, redis: dict[str, Any], **sections: Any) -> Path:
    """A configuration file: `QUICK`, with this section about Redis, and others in place of its own."""
    path.write_text(json.dumps({**QUICK, "redis": redis, **sections}))
    return path


class CeleryProcess:
    """A `celery` process; its output, standard error included, goes to a file.

    Args:
        arguments: after `celery -A workers`, as `("beat",)`.
        app: in place of `workers`.
    """

    def __init__(self, config: Path, log: Path, *arguments: str, app: str = "workers") -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("VMSCALER_")}
        environment |= {"CONFIG_PATH": str(config), "PYTHONUNBUFFERED": "1"}
        self._log = log
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "celery", "-A", app, *arguments],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    @classmethod
    def worker(cls, config: Path, directory: Path, name: str = "worker1") -> CeleryProcess:
        """A worker with the gevent pool."""
        return cls(
            config,
            directory / f"{name}.log",
            *("worker", "-P", "gevent", "-n", f"{name}@%h", "-l", "info"),
        )

    @classmethod
    def beat(cls, config: Path, directory: Path, name: str = "beat1") -> CeleryProcess:
        """A beat, which may be one of several."""
        return cls(
            config, directory / f"{name}.log", "beat", "-l", "info", f"--pidfile={directory}/{name}.pid"
        )

    def log(self) -> str:
        """All that it has written."""
        return self._log.read_text(errors="replace")

    def web_address(self) -> str:
        """Where a worker's HTTP server listens."""
        self.wait_for("HTTP server listens")
        return self.log().partition("HTTP server listens address=")[2].split()[0]

    def wait_for(self, text: str, times: int = 1) -> None:
        """Wait until it has written this text so often; fails when it ends before."""

        def is_there() -> bool:
            if self.log().count(text) >= times:
                return True
            assert self.process.poll() is None, f"it ended: {self.log()[-3000:]}"
            return False

        until(is_there, f"{text!r} in {self._log}: {self.log()[-3000:]}")

    def stop(self, number: int = signal.SIGTERM) -> int:
        """End it by a signal; its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.send_signal(number)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        return self.process.returncode
