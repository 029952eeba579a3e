"""Whether KVM works here, found out by a QEMU that begins to boot a kernel: nothing less tells.

`/dev/kvm` may be there and hang, let a VM be made and then refuse what QEMU needs, or run its BIOS and crawl
through the kernel's first instructions for minutes, as in a VM whose own host emulates it (all were seen). So
a child tries it within a limit, and is left behind if it hangs in the kernel.
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import subprocess
import time
from functools import cache
from pathlib import Path
from typing import IO, cast

PROBE_LIMIT_S = 10.0
"""Half a second where KVM works; more on a busy machine. QEMU's own emulation needs two or three."""

_PROBE = (
    *("-machine", "q35", "-accel", "kvm", "-cpu", "host", "-m", "256M"),
    *("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-serial", "stdio"),
    *("-append", "console=ttyS0 earlyprintk=ttyS0 panic=-1"),
)
_ALIVE = b"Linux version"
"""The kernel's first line."""
_MAX_CONSOLE = 64 * 1024
"""Bytes that may come before it."""


@cache
def has_kvm(program: str, kernel: Path, *, limit_s: float = PROBE_LIMIT_S) -> bool:
    """Whether QEMU boots a kernel with KVM; asked once in a process.

    Args:
        program: the QEMU.
        kernel: a Linux; it has no root, and ends where it looks for one.
        limit_s: after which the answer is no.
    """
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return False
    child = subprocess.Popen(
        [program, *_PROBE, "-kernel", str(kernel)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=_leave_no_core,
    )
    try:
        return _comes_alive(cast(IO[bytes], child.stdout), time.monotonic() + limit_s)
    finally:
        child.kill()
        # One that hangs in the kernel can't be killed; nobody waits for it.
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(0.5)


def _comes_alive(pipe: IO[bytes], deadline: float) -> bool:
    """Whether the console behind this pipe shows the kernel's first line in time."""
    console = b""
    with pipe:
        while len(console) < _MAX_CONSOLE:
            ready, _, _ = select.select([pipe], [], [], max(deadline - time.monotonic(), 0))
            piece = os.read(pipe.fileno(), 4_096) if ready else b""
            if not piece:
                return False
            console += piece
            if _ALIVE in console:
                return True
    return False


def _leave_no_core() -> None:
    """A QEMU that aborts in the probe is an answer, not something to be looked into."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def choose_accelerator(wanted: str, program: str, kernel: Path) -> str:
    """`kvm` or `tcg` for `auto`, by a probe; else what was wanted."""
    if wanted != "auto":
        return wanted
    return "kvm" if has_kvm(program, kernel) else "tcg"
