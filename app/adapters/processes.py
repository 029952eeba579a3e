"""Starts child processes that cannot outlive this one, not even if it is killed.

Two nets. The kernel kills a child when the thread that started it ends (PR_SET_PDEATHSIG), so `start` is
for the main thread only. What a child has started itself is in its process group, which the guard
(`process_guard`) kills when this process is gone; it removes the private directory too.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO

from app.ports.processes import ProcessSpec

GUARD = Path(__file__).with_name("process_guard.py")
"""Run by file name, see there."""

PR_SET_PDEATHSIG = 1
"""From linux/prctl.h."""

_LIBC = ctypes.CDLL(None, use_errno=True)


def follow_parent(signal_number: int) -> None:
    """Have the kernel send this process a signal when the thread that started it ends."""
    _LIBC.prctl(PR_SET_PDEATHSIG, signal_number)


class GuardedLauncher:
    """A `ProcessLauncher`; `close` it once all children are gone."""

    def __init__(self, private_directory: Path) -> None:
        """Start the guard.

        Args:
            private_directory: removed with all it holds if this process is killed.
        """
        self._guard = subprocess.Popen(
            [sys.executable, "-I", "-S", str(GUARD), str(private_directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
            text=True,
        )

    def start(self, spec: ProcessSpec) -> GuardedProcess:
        """Start it in a session of its own, so that a terminal's Ctrl-C does not reach it."""
        log = os.open(spec.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            process = subprocess.Popen(
                spec.argv,
                env=dict(spec.environment),
                cwd=spec.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_dying_with(os.getpid()),
            )
        finally:
            os.close(log)
        self._tell_guard(f"+{process.pid}")
        return GuardedProcess(process, self._tell_guard)

    def guard(self, pid: int) -> None:
        """Have a process group that somebody else started killed too if this process is; `release` it."""
        self._tell_guard(f"+{pid}")

    def release(self, pid: int) -> None:
        """That group has ended, or is to go on."""
        self._tell_guard(f"-{pid}")

    def close(self) -> None:
        """Tell the guard that all is tidy, and wait for its end."""
        self._tell_guard("done")
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._guard.wait(timeout=5.0)
        if self._guard.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._guard.stdin.close()

    def _tell_guard(self, line: str) -> None:
        pipe: IO[str] | None = self._guard.stdin
        if pipe is not None:
            # A guard that was killed is one net less, no reason to stop.
            with contextlib.suppress(BrokenPipeError):
                pipe.write(line + "\n")
                pipe.flush()


class GuardedProcess:
    """A `ChildProcess`: the leader of its own process group."""

    def __init__(self, process: subprocess.Popen[bytes], tell_guard: Callable[[str], None]) -> None:
        self._process = process
        self._tell_guard = tell_guard

    @property
    def pid(self) -> int:
        """Process id, and process group id."""
        return self._process.pid

    def poll(self) -> str | None:
        """See `ChildProcess`; the group is swept before the leader's id can be given to another process."""
        if self._process.returncode is None:
            if os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                return None
            self._signal_group(signal.SIGKILL)
            self._process.wait()
            self._tell_guard(f"-{self.pid}")
        return _describe_end(self._process.returncode)

    def terminate(self) -> None:
        """SIGTERM to the leader alone: how its own children end is its business."""
        if self._process.returncode is None:  # not reaped, so the id is still its own
            os.kill(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL to the whole group, and wait until the leader is gone."""
        if self._process.returncode is None:
            self._signal_group(signal.SIGKILL)
            self._process.wait()
            self._tell_guard(f"-{self.pid}")

    def _signal_group(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)


def _dying_with(parent: int) -> Callable[[], None]:
    """What the child does between fork and exec."""

    def prepare() -> None:
        follow_parent(signal.SIGKILL)
        if os.getppid() != parent:  # it died before the kernel knew
            os._exit(1)

    return prepare


def _describe_end(code: int | None) -> str | None:
    if code is None:
        return None
    if code >= 0:
        return f"exit status {code}"
    with contextlib.suppress(ValueError):
        return f"killed by {signal.Signals(-code).name}"
    return f"killed by signal {-code}"
