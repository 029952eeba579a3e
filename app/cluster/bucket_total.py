"""The number of buckets that a fleet has in its store: `16`, or `16>32` while the states are being moved.

Source of the rule: `spec/forwarder.md`, "Leases in Redis": a worker with another number refuses to start.
"""

from __future__ import annotations

import re

from app.errors import ConfigurationError

_RESIZE = re.compile(r"([0-9]{1,4})>([0-9]{1,4})", re.ASCII)


def format_resize(old: int, new: int) -> str:
    """What is stored while the states of `old` buckets are moved to `new` ones."""
    return f"{old}>{new}"


def parse_resize(stored: str) -> tuple[int, int] | None:
    """(old, new) while a resize has begun and not ended."""
    match = _RESIZE.fullmatch(stored)
    return None if match is None else (int(match[1]), int(match[2]))


def read_total(stored: str) -> int | None:
    """The number in force; None where what is stored is none.

    Raises:
        ConfigurationError: it is being changed; says how to finish that.
    """
    under_way = parse_resize(stored)
    if under_way is not None:
        old, new = under_way
        raise ConfigurationError(
            [
                f"the fleet's number of buckets is being changed from {old} to {new}: "
                f"run `vmscaler buckets resize {new}` until it ends, then start the workers"
            ],
            source="redis",
        )
    return int(stored) if stored.isascii() and stored.isdigit() else None


def check_total(total: int, stored: str) -> None:
    """Refuse a number of buckets that is not the fleet's.

    Raises:
        ConfigurationError: another number is in force, or it is being changed; says what to do.
    """
    in_force = read_total(stored)
    if in_force != total:
        shown = stored[:20].encode("unicode_escape").decode()
        raise ConfigurationError(
            [
                f".ownership.buckets: {total}, but this fleet has {shown} in Redis; set it to "
                f"that, or stop all workers and run `vmscaler buckets resize {total}`"
            ]
        )
