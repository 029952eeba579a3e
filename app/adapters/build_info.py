"""Which build of vmscaler this process runs: for the state dump and bug reports."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path

from app import __version__

REVISION_VARIABLE = "VMSCALER_GIT_REVISION"
"""Set where the image is built; a checkout says it itself."""

UNKNOWN = "unknown"

_CHECKOUT = Path(__file__).parents[2]
_REVISION = re.compile(r"[0-9a-f]{7,64}")
_MAX_FILE = 16 << 20


def build_info() -> dict[str, str]:
    """Version, git revision (`unknown` outside of a checkout and our images) and Python's version."""
    return {"version": __version__, "gitRevision": git_revision(), "pythonVersion": platform.python_version()}


def git_revision(checkout: Path = _CHECKOUT) -> str:
    """The commit that this code is of; changes that are not committed don't show.

    Reads the files of `.git`: there may be no git where we run.
    """
    told = os.environ.get(REVISION_VARIABLE, "").strip().lower()
    if _REVISION.fullmatch(told):
        return told
    try:
        found = _head(_git_directory(checkout / ".git"))
    except (OSError, ValueError):
        return UNKNOWN
    return found if _REVISION.fullmatch(found) else UNKNOWN


def _git_directory(place: Path) -> Path:
    """Where the files are; in a second working tree `.git` is a file that says so."""
    if place.is_dir():
        return place
    return (place.parent / _read(place).removeprefix("gitdir:").strip()).resolve()


def _head(directory: Path) -> str:
    head = _read(directory / "HEAD").strip()
    name = head.removeprefix("ref:").strip()
    if name == head:
        return head
    try:
        shared = directory / _read(directory / "commondir").strip()
    except OSError:
        shared = directory
    for place in (directory, shared):
        try:
            return _read(place / name).strip()
        except OSError:
            continue
    for line in _read(shared / "packed-refs").splitlines():
        revision, _, packed = line.partition(" ")
        if packed == name:
            return revision
    return UNKNOWN


def _read(path: Path) -> str:
    with path.open(encoding="ascii") as file:
        return file.read(_MAX_FILE)
