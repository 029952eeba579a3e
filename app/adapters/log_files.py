"""Keeps log files of processes that append to them from growing without end."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

MAX_BYTES = 4 * 1024 * 1024
"""At this size a log's content moves to `NAME.1`, replacing an older one; a runtime directory is memory."""


def bound_logs(directory: Path) -> None:
    """Cut each `*.log` that has grown too large; call it now and then.

    The writers keep their files open and append, so a file is emptied in place; lines written between copy
    and cut are lost. A full disk leaves things as they are.
    """
    for log in directory.glob("*.log"):
        try:
            if log.stat().st_size > MAX_BYTES:
                shutil.copyfile(log, log.with_name(log.name + ".1"))
                os.truncate(log, 0)
        except OSError:
            continue
