"""Stats that VMs push where they can't be polled: the list of `POST /v1/stats`, and one stat in a queue.

Source: `spec/forwarder.md`, "The forwarder", and the fields of the metrics page (`spec/agent.md`). What is
sent is untrusted: one wrong entry, and nothing of its list is taken.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from app.core.model import Metrics
from app.errors import InvalidInput
from app.protocols.bounded_json import read_json, write_json
from app.protocols.printable import printable
from app.protocols.prometheus_text import KERNEL_BYTES

MAX_AHEAD_MS = 60_000
"""A timestamp further ahead of our clock is a bad entry."""

LARGEST = 1 << 53
"""No number may reach it: beyond, not every whole number is a JSON number."""

MAX_QUEUED_BYTES = 4096
"""A stat in a queue; our own have some 200."""

_KEY = re.compile(r"[A-Za-z0-9._-]{1,253}/[A-Za-z0-9._-]{1,253}")
_AMOUNTS = ("load1", "load5", "memTotalBytes", "memAvailableBytes")
_FIELDS = ("key", *_AMOUNTS, "timestamp")


@dataclass(frozen=True, slots=True)
class Stat:
    """One sample of one VM, as the VM tells it.

    Attributes:
        key: the VM's `namespace/name`.
        timestamp: when it was taken, Unix milliseconds by the VM's clock; its stats count in this order.
    """

    key: str
    load1: float
    load5: float
    mem_total_bytes: float
    mem_available_bytes: float
    timestamp: int

    def metrics(self) -> Metrics:
        """The sample as polling would give it: the kernel's share of memory counts as used."""
        used = self.mem_total_bytes - self.mem_available_bytes + KERNEL_BYTES
        return Metrics(load1=self.load1, load5=self.load5, mem_bytes=used)


def read_entries(body: bytes, *, max_bytes: int) -> list[object]:
    """The entries of a list, not yet looked into; a name that stands twice in one shows when it is read.

    Raises:
        InvalidInput: longer, deeper, not JSON, or no list.
    """
    value = read_json(body, max_bytes=max_bytes, where="body", make_object=_make_object)
    if not isinstance(value, list):
        raise InvalidInput("body", "not a JSON list")
    return value


def key_of(entry: object) -> str | None:
    """The key that an entry gives, whatever else is wrong with it; None without one that can be a VM's."""
    key = entry.get("key") if isinstance(entry, dict) else None
    return key if isinstance(key, str) and _KEY.fullmatch(key) else None


def read_stat(entry: object, where: str, *, now_ms: int) -> Stat:
    """One entry.

    Args:
        where: what to call it in errors, such as `[3]`; the field is appended.
        now_ms: our clock.

    Raises:
        InvalidInput: a field is missing, unknown, of another type or out of range.
    """
    if not isinstance(entry, dict):
        raise InvalidInput(where, "not a JSON object")
    if isinstance(entry, _Repeated):
        raise InvalidInput(f"{where}.{entry.name}", "stands there twice")
    for name in _FIELDS:
        if name not in entry:
            raise InvalidInput(f"{where}.{name}", "missing")
    for name in entry:
        if name not in _FIELDS:
            raise InvalidInput(f"{where}.{printable(name, 50)}", "unknown field")
    key = key_of(entry)
    if key is None:
        raise InvalidInput(f"{where}.key", "must be namespace/name: letters, digits, dots, dashes")
    load1, load5, total, available = (_amount(entry, name, where) for name in _AMOUNTS)
    if total == 0:
        raise InvalidInput(f"{where}.memTotalBytes", "is zero")
    if available > total:
        raise InvalidInput(f"{where}.memAvailableBytes", "is above memTotalBytes")
    return Stat(key, load1, load5, total, available, _timestamp(entry, where, now_ms))


def encode_stat(stat: Stat) -> bytes:
    """One stat as it waits in a queue: the same object as in the list."""
    values = (stat.load1, stat.load5, stat.mem_total_bytes, stat.mem_available_bytes)
    return write_json(
        {"key": stat.key, **dict(zip(_AMOUNTS, values, strict=True)), "timestamp": stat.timestamp}
    )


def decode_stat(data: bytes) -> Stat:
    """The other way round; its timestamp was checked when it was taken.

    Raises:
        InvalidInput: not what `encode_stat` makes.
    """
    value = read_json(data, max_bytes=MAX_QUEUED_BYTES, where="stat", make_object=_make_object)
    return read_stat(value, "stat", now_ms=LARGEST)


class _Repeated(dict[str, object]):
    """An object in which a name stands twice."""

    name = ""


def _make_object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    made: dict[str, object] = {}
    repeated = None
    for name, value in pairs:
        if name in made and repeated is None:
            repeated = printable(name, 50)
        made[name] = value
    if repeated is None:
        return made
    marked = _Repeated(made)
    marked.name = repeated
    return marked


def _amount(entry: Mapping[str, object], name: str, where: str) -> float:
    """A number from 0 on."""
    value = entry[name]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidInput(f"{where}.{name}", "not a number")
    if not 0 <= value < LARGEST or not math.isfinite(value):
        raise InvalidInput(f"{where}.{name}", f"must be from 0 to below {LARGEST}")
    return abs(value)


def _timestamp(entry: Mapping[str, object], where: str, now_ms: int) -> int:
    value = entry["timestamp"]
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidInput(f"{where}.timestamp", "not a whole number of milliseconds")
    if not 0 < value < LARGEST:
        raise InvalidInput(f"{where}.timestamp", "is no Unix time in milliseconds")
    if value > now_ms + MAX_AHEAD_MS:
        raise InvalidInput(f"{where}.timestamp", "is more than 60 s ahead of our clock; set the VM's clock")
    return value
