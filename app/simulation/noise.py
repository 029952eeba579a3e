"""Numbers that look random and are a function of their arguments: the same on any machine, in any order."""

from __future__ import annotations

from hashlib import blake2b


def noise(seed: int, *parts: str | int) -> float:
    """A number in [0, 1), evenly spread over different arguments."""
    text = "\x1f".join(map(str, (seed, *parts)))
    return int.from_bytes(blake2b(text.encode(), digest_size=7).digest(), "big") / (1 << 56)


def between(low: float, high: float, seed: int, *parts: str | int) -> float:
    """A number in [low, high), by `noise`."""
    return low + (high - low) * noise(seed, *parts)
