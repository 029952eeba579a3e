"""Spreads what many would do at the same moment."""

from __future__ import annotations

import zlib


def spread(name: str) -> float:
    """A number between 0 and 1 that is the name's own, on every machine."""
    return (zlib.crc32(name.encode()) & 0xFFFF) / 0xFFFF
