"""How a process ends: gracefully, within its grace period, or at once."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

PLAIN = """
import sys, time
from app.adapters.ending import end_within
end_within({grace}, {begin})
try:
    print("up", flush=True)
    while True: time.sleep(0.05)
finally:
    print("leaving", flush=True)
    time.sleep({leave})
    print("left", flush=True)
"""

GREEN = """
from app.web.server import on_termination, patch_process
patch_process()
import time, threading
stop = threading.Event()
on_termination(stop.set, {grace})
print("up", flush=True)
stop.wait()
print("leaving", flush=True)
time.sleep({leave})
print("left", flush=True)
"""

BLOCKED = """
from app.web.server import on_termination, patch_process
patch_process()
import gevent.monkey
on_termination(lambda: None, {grace})
print("up", flush=True)
gevent.monkey.get_original("time", "sleep")(600)
"""


class Program:
    def __init__(self, text: str, *, grace: float = 60, leave: float = 0.0, begin: str = "sys.exit") -> None:
        code = text.replace("{grace}", str(grace)).replace("{leave}", str(leave)).replace("{begin}", begin)
        self.process = subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.read("up")

    def read(self, expected: str) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline().strip() == expected

    def send(self, number: int) -> None:
        self.process.send_signal(number)

    def end(self) -> tuple[int, str, str]:
        out, err = self.process.communicate(timeout=60)
        return self.process.returncode, out, err


@pytest.mark.parametrize("text", [PLAIN, GREEN], ids=["plain", "gevent"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_begins_an_end_that_is_finished(text: str, number: int) -> None:
    program = Program(text, leave=0.2)
    program.send(number)
    assert program.end()[:2] == (0, "leaving\nleft\n")


@pytest.mark.parametrize("text", [PLAIN, GREEN], ids=["plain", "gevent"])
@pytest.mark.parametrize(("second", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_the_second_signal_ends_at_once(text: str, second: int, status: int) -> None:
    program = Program(text, leave=600)
    program.send(signal.SIGTERM)
    program.read("leaving")
    program.send(second)
    code, out, err = program.end()
    assert (code, out) == (status, "")
    assert "again: ended at once" in err


@pytest.mark.parametrize("text", [PLAIN, GREEN], ids=["plain", "gevent"])
def test_an_end_that_takes_too_long_is_cut_short_with_the_stacks(text: str) -> None:
    program = Program(text, grace=0.3, leave=600)
    program.send(signal.SIGTERM)
    code, _, err = program.end()
    assert code == 124
    assert "not ended within 0.3 s of the signal" in err
    assert "Thread 0x" in err


def test_a_process_whose_loop_is_blocked_ends_too() -> None:
    program = Program(BLOCKED, grace=0.3)
    begun = time.monotonic()
    program.send(signal.SIGTERM)
    assert program.end()[0] == 124
    assert time.monotonic() - begun < 50


def test_the_handlers_that_are_there_begin_the_end_where_nobody_else_does() -> None:
    text = PLAIN.replace(
        "end_within(", "import signal\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(7))\nend_within("
    )
    program = Program(text, begin="None")
    program.send(signal.SIGTERM)
    assert program.end()[0] == 7
