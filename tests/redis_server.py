"""A Redis server on a TCP port of its own, for tests that stop it, start it again, or make it a replica."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import redis

from app.adapters.embedded_redis import find_redis_server
from app.adapters.port_reservation import ReservedPort
from tests.fleet_process import until


class TcpRedis:
    """A server whose port stays the same over restarts; it keeps its data in `directory`.

    Args:
        options: more of redis-server's options, as `{"maxmemory": "2mb"}`.
        sentinel: it is a Sentinel; `directory` gets its configuration file.

    Attributes:
        process: the server, None while it is stopped.
    """

    def __init__(
        self, directory: Path, options: dict[str, str] | None = None, *, sentinel: str | None = None
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._reserved = ReservedPort()
        self.port = self._reserved.number
        self._options = options or {}
        self._sentinel = sentinel
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"redis://127.0.0.1:{self.port}/0"

    def client(self, **options: Any) -> Any:
        """A client of redis-py."""
        return redis.Redis(host="127.0.0.1", port=self.port, socket_timeout=10, **options)

    def start(self) -> None:
        """Start it, and wait until it takes connections."""
        options = {
            "port": str(self.port),
            "bind": "127.0.0.1",
            "dir": str(self._directory),
            "logfile": str(self._directory / "redis.log"),
        }
        if self._sentinel is None:
            options |= {"save": "", "appendonly": "yes", "maxmemory-policy": "noeviction"}
        options |= self._options
        command = [str(find_redis_server())]
        if self._sentinel is not None:
            file = self._directory / "sentinel.conf"
            if not file.exists():
                file.write_text(self._sentinel)
            command += [str(file), "--sentinel"]
        words = [word for name, value in options.items() for word in (f"--{name}", value)]
        self.process = subprocess.Popen([*command, *words], stdin=subprocess.DEVNULL)
        until(self._is_up, "Redis takes connections")

    def _is_up(self) -> bool:
        try:
            self.client().ping()
        except redis.AuthenticationError:
            return True
        except (redis.RedisError, OSError):
            return False
        return True

    def stop(self, number: int = signal.SIGTERM) -> None:
        """End it by a signal; a second time does nothing."""
        if self.process is not None:
            self.process.send_signal(signal.SIGCONT)
            self.process.send_signal(number)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.process = None

    def be_away(self, seconds: float) -> None:
        """Stop it for that long, and start it again with its data."""
        self.stop()
        time.sleep(seconds)
        self.start()

    def close(self) -> None:
        """Stop it and give its port back."""
        self.stop(signal.SIGKILL)
        self._reserved.close()
