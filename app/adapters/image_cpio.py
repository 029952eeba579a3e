"""Writes an initramfs: a cpio archive in the "newc" form that the kernel unpacks, the same bytes each time.

Inode numbers count up, times are 0, everything belongs to root: what is in it is all that decides the bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_DIRECTORY = 0o040755
_FILE = 0o100000
_LINK = 0o120777
_TRAILER = "TRAILER!!!"


@dataclass(frozen=True, slots=True)
class CpioFile:
    """A regular file; `mode` has the permission bits only."""

    content: bytes
    mode: int = 0o644


@dataclass(frozen=True, slots=True)
class CpioLink:
    """A symbolic link and what it points to."""

    target: str


CpioEntry = CpioFile | CpioLink


def cpio_archive(entries: Mapping[str, CpioEntry]) -> bytes:
    """The archive, sorted by path, with the directories above each path before it.

    Args:
        entries: by path, without a slash in front; an entry that ends in `/` would be no file.
    """
    paths = set(entries)
    for path in entries:
        parts = path.split("/")[:-1]
        paths.update("/".join(parts[: count + 1]) for count in range(len(parts)))
    out = bytearray()
    for inode, path in enumerate(sorted(paths), 1):
        entry = entries.get(path)
        if entry is None:
            out += _record(inode, path, _DIRECTORY, b"")
        elif isinstance(entry, CpioLink):
            out += _record(inode, path, _LINK, entry.target.encode())
        else:
            out += _record(inode, path, _FILE | entry.mode, entry.content)
    out += _record(0, _TRAILER, 0, b"")
    return bytes(out)


def _record(inode: int, path: str, mode: int, content: bytes) -> bytes:
    """One header with name and content, each padded to four bytes."""
    name = path.encode() + b"\0"
    links = 2 if mode == _DIRECTORY else 1
    fields = (inode, mode, 0, 0, links, 0, len(content), 0, 0, 0, 0, len(name), 0)
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + name
    return _padded(head) + _padded(content)


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)
