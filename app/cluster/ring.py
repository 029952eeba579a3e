"""Consistent hashing of keys over buckets, bit for bit that of Knative's hash package.

Source of the rule: `spec/forwarder.md`, "Owner of a key". Each name stands at an angle of a circle that
differs from key to key; a walk with a start and a step of the key's own picks names.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable
from functools import lru_cache

from app.errors import InvalidInput

ANGLES = 1 << 11
"""Places on the circle; no more names than these can be told apart."""

CACHED_KEYS = 4096
"""Owners remembered, the least recently used goes first."""

START_SALT = b"start-angle-salt"
STEP_SALT = b"step-angle-salt"

_FNV_OFFSET = 0xCBF29CE484222325
_FNV_PRIME = 0x100000001B3
_MASK = 0xFFFFFFFFFFFFFFFF
_BUCKET = re.compile(r"autoscaler-bucket-([0-9]{2,})-of-([0-9]{2,})", re.ASCII)


def fnv1a_64(data: bytes, state: int = _FNV_OFFSET) -> int:
    """FNV-1a, 64 bit; `state` is the hash of what came before `data`, so that a prefix is hashed once."""
    for byte in data:
        state = ((state ^ byte) * _FNV_PRIME) & _MASK
    return state


def choose_subset(names: Iterable[str], n: int, target: str) -> list[str]:
    """The `n` of `names` that the key `target` belongs to, sorted; all of them if there are no more than `n`.

    The order of `names` makes no difference; a name that stands twice counts once.

    Raises:
        InvalidInput: over 2,048 names, or text that is not UTF-8.
    """
    distinct = sorted(set(names))
    if n >= len(distinct):
        return distinct
    return sorted(_Circle(distinct).pick(max(n, 0), _encode(target)))


class BucketSet:
    """The buckets of a fleet and who owns a key among them.

    Args:
        total: number of buckets, 1 to 2,048; their names are `bucket_names(total)`.
    """

    def __init__(self, total: int) -> None:
        self.update(bucket_names(total))

    @property
    def names(self) -> tuple[str, ...]:
        """All buckets, sorted."""
        return self._names

    @property
    def total(self) -> int:
        """How many there are."""
        return len(self._names)

    def owner(self, key: str) -> str:
        """The bucket that a VM's key (`namespace/name`) belongs to.

        Raises:
            InvalidInput: the key is not UTF-8.
        """
        return self._owner(key)

    def update(self, names: Iterable[str]) -> None:
        """Change the set; the cache is emptied, and keys move only if their bucket left.

        Raises:
            InvalidInput: no name at all, or over 2,048.
        """
        distinct = sorted(set(names))
        if not distinct:
            raise InvalidInput("buckets", "there must be one at least")
        circle = _Circle(distinct)

        def find(key: str) -> str:
            return circle.pick(1, _encode(key))[0] if len(distinct) > 1 else distinct[0]

        self._names = tuple(distinct)
        self._owner: Callable[[str], str] = lru_cache(CACHED_KEYS)(find)


def bucket_name(index: int, total: int) -> str:
    """`autoscaler-bucket-II-of-TT`, two digits at least, `index` from 0."""
    return f"autoscaler-bucket-{index:02d}-of-{total:02d}"


def bucket_names(total: int) -> list[str]:
    """All names of a fleet of `total` buckets, in order of their index.

    Raises:
        InvalidInput: `total` is not 1 to 2,048.
    """
    if not 1 <= total <= ANGLES:
        raise InvalidInput("buckets", f"must be 1 to {ANGLES}, not {total}")
    return [bucket_name(index, total) for index in range(total)]


def parse_bucket_name(name: str) -> tuple[int, int] | None:
    """(index, total) of a bucket's name; None if it isn't one, spelt exactly as `bucket_name` does."""
    match = _BUCKET.fullmatch(name)
    if match is None or len(name) > 64:
        return None
    index, total = int(match[1]), int(match[2])
    return (index, total) if index < total and bucket_name(index, total) == name else None


class _Circle:
    """Names, each with the hash of its own bytes, from which that of name + key goes on."""

    def __init__(self, names: list[str]) -> None:
        if len(names) > ANGLES:
            raise InvalidInput("names", f"{ANGLES} at most, not {len(names)}")
        self._hashed = [(name, fnv1a_64(_encode(name))) for name in names]

    def pick(self, n: int, target: bytes) -> list[str]:
        """`n` different names, `n` at most as many as there are, in the order of the walk."""
        by_angle = self._place(target)
        angles = sorted(by_angle)
        start = fnv1a_64(target)
        angle = fnv1a_64(START_SALT, start) % ANGLES
        step = fnv1a_64(STEP_SALT, start) % ANGLES
        picked: dict[str, None] = {}
        while len(picked) < n:
            at = bisect_left(angles, angle)
            while (name := by_angle[angles[at % len(angles)]]) in picked:
                at += 1
            picked[name] = None
            angle = (angle + step) % ANGLES
        return list(picked)

    def _place(self, target: bytes) -> dict[int, str]:
        by_angle: dict[int, str] = {}
        for name, state in self._hashed:
            full = fnv1a_64(target, state)
            while full % ANGLES in by_angle:
                # Appending to the hashed bytes is going on from their hash.
                full = fnv1a_64(b"%x" % full, full)
            by_angle[full % ANGLES] = name
        return by_angle


def _encode(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise InvalidInput("key", "is not UTF-8 text") from None
