"""What a VM asks the built-in scheduler for, and what it is told (`spec/scheduler-protocol.md`).

CPU in milli-vCPU and memory in bytes, because VMs of one node may have slots of different sizes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Amount:
    """An amount of a node.

    Attributes:
        cpu: milli-vCPU.
        mem: bytes (not slots).
    """

    cpu: int
    mem: int

    def max(self, other: Amount) -> Amount:
        """The larger of the two, field by field."""
        return Amount(max(self.cpu, other.cpu), max(self.mem, other.mem))

    def min(self, other: Amount) -> Amount:
        """The smaller of the two, field by field."""
        return Amount(min(self.cpu, other.cpu), min(self.mem, other.mem))

    def plus(self, other: Amount) -> Amount:
        """The sum, field by field."""
        return Amount(self.cpu + other.cpu, self.mem + other.mem)

    def minus(self, other: Amount) -> Amount:
        """The difference, field by field, never below 0."""
        return Amount(max(0, self.cpu - other.cpu), max(0, self.mem - other.mem))

    def has_field_above(self, other: Amount) -> bool:
        """Whether at least one field is greater than the other's."""
        return self.cpu > other.cpu or self.mem > other.mem


NOTHING = Amount(0, 0)


def total(amounts: Iterable[Amount]) -> Amount:
    """The sum of all."""
    cpu = mem = 0
    for amount in amounts:
        cpu += amount.cpu
        mem += amount.mem
    return Amount(cpu, mem)


@dataclass(frozen=True, slots=True)
class PodFacts:
    """What the platform says of a VM.

    Attributes:
        key: `namespace/name`.
        uid: another uid under the same key is another VM.
        maximum: most that it may be scaled to.
        size: what it has now, for a VM that we scale the size asked for included.
        is_observed: it never speaks and counts with `size`.
        is_migrating: its size must not change.
    """

    key: str
    uid: str
    node: str
    maximum: Amount
    size: Amount
    slot_bytes: int
    is_observed: bool = False
    is_migrating: bool = False


class RefusalKind(StrEnum):
    """Why nothing is granted."""

    UNKNOWN_POD = "unknown pod"
    UNKNOWN_NODE = "unknown node"
    OLD_TOKEN = "old token"  # noqa: S105 - not a password
    BAD_REQUEST = "bad request"
    MIGRATING = "migrating"
    NO_ROOM = "no room"


@dataclass(frozen=True, slots=True)
class Refusal:
    """No grant, and why, in a sentence for the agent's log."""

    kind: RefusalKind
    text: str


@dataclass(frozen=True, slots=True)
class Wish:
    """One request.

    Attributes:
        requested: what the VM is to hold: at least what it uses.
        last_permit: what the scheduler before us granted, where the agent tells it (v2.1 on).
        is_whole_cpus: the speaker's version is below v2.0.
        token: the fencing token of its agent; None from agents that have none.
    """

    requested: Amount
    last_permit: Amount | None = None
    is_whole_cpus: bool = False
    token: int | None = None


@dataclass(frozen=True, slots=True)
class Grant:
    """What the VM may hold; `pressure` is what it asked for beyond that."""

    permit: Amount
    pressure: Amount
    slot_bytes: int
    is_migrating: bool
