"""The serial console of a VM in this terminal."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import sys
import termios
import tty
from collections.abc import Iterator
from pathlib import Path

import click

from app.errors import UsageError

LEAVE = b"\x1d"
"""Ctrl-], as with telnet."""
_READ_BYTES = 65_536


def run_console(path: Path) -> None:
    """Copy bytes both ways until Ctrl-], the end of the input, or of the VM.

    Raises:
        UsageError: the console can't be had.
    """
    with socket.socket(socket.AF_UNIX) as console:
        directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            # Through the directory's descriptor: a socket's path may have 107 bytes only.
            console.connect(f"/proc/self/fd/{directory}/{path.name}")
        except OSError as err:
            raise UsageError(f"the console can't be reached: {err.strerror}") from err
        finally:
            os.close(directory)
        click.echo("the console; Ctrl-] leaves it", err=True)
        with _raw_terminal():
            _copy(console)
    click.echo("\r", err=True)


def _copy(console: socket.socket) -> None:
    keys, screen = sys.stdin.fileno(), sys.stdout.fileno()
    while True:
        ready, _, _ = select.select([keys, console], [], [])
        if console in ready:
            data = console.recv(_READ_BYTES)
            if not data:
                return
            os.write(screen, data)
        if keys in ready:
            data = os.read(keys, _READ_BYTES)
            before, leave, _ = data.partition(LEAVE)
            console.sendall(before)
            if leave or not data:
                return


@contextlib.contextmanager
def _raw_terminal() -> Iterator[None]:
    """Keys go to the VM as they are pressed, where the input is a terminal."""
    if not sys.stdin.isatty():
        yield
        return
    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setraw(sys.stdin)
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
