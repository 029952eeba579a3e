"""A size that an operator has fixed by hand: how the wish is spelt, checked, and what the core is told.

The core knows no fixed sizes and needs none: the VM's bounds are narrowed to the fixed size for as long as it
stands, so that whatever the load says the core wants that size. All its rules stay in force: the permit,
the monitor's leave, a denial that keeps the VM above it for its cooldown (`spec/core.md`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from app.core.model import CoreVm
from app.core.resources import MilliCpu, Resources, Slots
from app.errors import UsageError
from app.ports.store import Intent
from app.services.wording import bytes_text, cpu_text, moment_text, size_text

KIND = "resize"
"""The kind of intent that holds a fixed size; its value is `FixedSize.value`."""

_VALUE = re.compile(r"(-|[1-9][0-9]{0,9}) (-|[1-9][0-9]{0,15})", re.ASCII)
"""Milli-vCPU and bytes; two million CPUs and 8 PiB are the most that a command takes."""


@dataclass(frozen=True, slots=True)
class FixedSize:
    """What was fixed; a field that is None goes on being scaled. At least one is given.

    Attributes:
        cpu: milli-vCPU.
        mem_bytes: bytes and not slots, for the wish may outlive its VM's size of a slot.
    """

    cpu: int | None
    mem_bytes: int | None

    @property
    def value(self) -> str:
        """As it stands in an intent."""
        return f"{self.cpu or '-'} {self.mem_bytes or '-'}"

    def text(self) -> str:
        """For people: `2.5 CPU, 10 GiB`, `2.5 CPU`."""
        cpu = [] if self.cpu is None else [f"{cpu_text(self.cpu).removesuffix('.0')} CPU"]
        memory = [] if self.mem_bytes is None else [bytes_text(self.mem_bytes)]
        return ", ".join(cpu + memory)

    def within(self, low: Resources, high: Resources, slot_bytes: int) -> tuple[Resources, Resources]:
        """Bounds narrowed to it; where it is outside of them, to the nearest that they allow."""
        mem = None if self.mem_bytes is None else Slots(self.mem_bytes // slot_bytes)
        return self._or(low, mem).min(high).max(low), self._or(high, mem).min(high).max(low)

    def _or(self, otherwise: Resources, mem: Slots | None) -> Resources:
        cpu = otherwise.cpu if self.cpu is None else MilliCpu(self.cpu)
        return Resources(cpu, otherwise.mem if mem is None else mem)


def read_fixed(intent: Intent | None) -> FixedSize | None:
    """The size that an intent fixes; None: it fixes none, it takes one back, or it can't be read."""
    match = None if intent is None or intent.kind != KIND else _VALUE.fullmatch(intent.value)
    if match is None:
        return None
    cpu, mem = (None if text == "-" else int(text) for text in match.groups())
    return None if cpu is None and mem is None else FixedSize(cpu, mem)


def for_core(vm: CoreVm, intents: Mapping[str, Intent]) -> CoreVm:
    """The VM as the core is to see it while these intents stand."""
    fixed = read_fixed(intents.get(KIND))
    if fixed is None:
        return vm
    low, high = fixed.within(vm.min, vm.max, vm.slot_bytes)
    return replace(vm, min=low, max=high)


def fixed_text(intents: Mapping[str, Intent], now: int) -> str:
    """The operator's word in a sentence, for why texts; empty without one."""
    intent = intents.get(KIND)
    fixed = read_fixed(intent)
    if intent is None or fixed is None:
        return ""
    said = hand_text(fixed, intent.author, intent.reason, intent.until_ms, now)
    return f"fixed by hand at {said}"


def hand_text(fixed: FixedSize, author: str, reason: str, until_ms: int | None, now: int) -> str:
    """`2.5 CPU, 10 GiB by ada@ops until 14:05:10 UTC: reason`; no "in 8 s": the trail keeps it."""
    until = "until it is cleared" if until_ms is None else f"until {moment_text(until_ms, now)} UTC"
    return f"{fixed.text()} by {author} {until}" + (f": {reason}" if reason else "")


def check_fixed(fixed: FixedSize, low: Resources, high: Resources, slot_bytes: int) -> None:
    """Refuse what a VM with these bounds can't have.

    Raises:
        UsageError: outside of the bounds, or memory that is no whole number of slots; names what is possible.
    """
    bounds = f"it may have {size_text(low, slot_bytes)} to {size_text(high, slot_bytes)}"
    if fixed.cpu is not None and not low.cpu <= fixed.cpu <= high.cpu:
        raise UsageError(f"{cpu_text(fixed.cpu)} CPU is out of the VM's bounds: {bounds}")
    if fixed.mem_bytes is None:
        return
    if not low.mem * slot_bytes <= fixed.mem_bytes <= high.mem * slot_bytes:
        raise UsageError(f"{bytes_text(fixed.mem_bytes)} is out of the VM's bounds: {bounds}")
    below = fixed.mem_bytes // slot_bytes * slot_bytes
    if below != fixed.mem_bytes:
        raise UsageError(
            f"its memory comes in slots of {bytes_text(slot_bytes)}: "
            f"{bytes_text(below)} or {bytes_text(below + slot_bytes)} is possible, "
            f"{fixed.mem_bytes} bytes is not"
        )
