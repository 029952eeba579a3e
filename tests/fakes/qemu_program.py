"""Run as `qemu-system-x86_64`: does what a VM's QEMU does for those who start and stop it.

It opens the sockets that its arguments name, writes its pidfile, answers QMP, and, as the guest, answers on
the forwarded port. `FAKE_QEMU` in its environment makes it misbehave: `ends` (says why, and ends), `stays`
(ignores `quit` and SIGTERM).
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def value_after(flag: str) -> str:
    """The value of an argument."""
    return sys.argv[sys.argv.index(flag) + 1]


def main() -> None:
    """Serve until told to quit."""
    sys.path.insert(0, str(ROOT))
    from tests.fakes.qemu import FakeQemu
    from tests.fakes.qemu_machine import FakeMachine

    behaviour = os.environ.get("FAKE_QEMU", "")
    if behaviour == "ends" or "stdio" in sys.argv:
        sys.stderr.write("qemu: there is no such accelerator\n")
        sys.exit(1)
    if behaviour == "stays":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    Path(value_after("-pidfile")).write_text(f"{os.getpid()}\n")
    machine = FakeMachine()
    machine.token = Path("token").read_text()
    over = threading.Event()

    def watch(name: str, _: dict[str, object]) -> None:
        if name == "quit" and behaviour != "stays":
            over.set()

    machine.watchers.append(watch)
    port = int(value_after("-netdev").rpartition("127.0.0.1:")[2].partition("-")[0])
    qemu = FakeQemu(Path(), machine=machine, port=port)
    qemu.path = Path(value_after("-qmp").removeprefix("unix:").partition(",")[0])
    with qemu:
        over.wait()
    os._exit(0)


if __name__ == "__main__":
    main()
