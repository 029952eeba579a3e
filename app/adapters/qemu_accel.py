"""Whether KVM works here, found out by a QEMU that is ended again: nothing less tells.

`/dev/kvm` may be there and hang, or let a VM be made and then refuse what QEMU needs (both were seen). So a
child tries it within a limit, and is left behind if it hangs in the kernel.
"""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess

PROBE_LIMIT_S = 10.0
"""Half a second where KVM works; more on a busy machine."""

_PROBE = (
    "-machine",
    "q35",
    "-accel",
    "kvm",
    "-cpu",
    "host",
    "-m",
    "64M",
    "-S",
    "-nodefaults",
    "-no-user-config",
    "-display",
    "none",
    "-qmp",
    "stdio",
)
_WORDS = b'{"execute":"qmp_capabilities"}\n{"execute":"quit"}\n'


def has_kvm(program: str, *, limit_s: float = PROBE_LIMIT_S) -> bool:
    """Whether QEMU starts a VM with KVM.

    Args:
        program: the QEMU.
        limit_s: after which the answer is no.
    """
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return False
    child = subprocess.Popen(
        [program, *_PROBE],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=_leave_no_core,
    )
    try:
        child.communicate(_WORDS, timeout=limit_s)
    except (subprocess.TimeoutExpired, BrokenPipeError):
        child.kill()
        # One that hangs in the kernel can't be killed; nobody waits for it.
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(0.5)
        return False
    return child.returncode == 0


def _leave_no_core() -> None:
    """A QEMU that aborts in the probe is an answer, not something to be looked into."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def choose_accelerator(wanted: str, program: str) -> str:
    """`kvm` or `tcg` for `auto`, by a probe; else what was wanted."""
    if wanted != "auto":
        return wanted
    return "kvm" if has_kvm(program) else "tcg"
