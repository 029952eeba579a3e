"""Amounts in the configuration, written as Kubernetes quantities: `2`, `"250m"`, `"32Gi"`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, PlainSerializer, PlainValidator

from app.config.fields import Section, setting, wrong
from app.core.resources import Resources, resources
from app.errors import InvalidInput
from app.protocols.quantity import format_milli_cpu, parse_bytes, parse_milli_cpu

MAX_MILLI_CPU = 512_000
"""CPUs above 512 are invalid (`spec/neonvm.md`)."""

MAX_BYTES = 2**60
"""An exbibyte: more than any node has."""


def _cpu_or_none(value: object) -> int:
    try:
        milli = parse_milli_cpu(value)
    except InvalidInput:
        raise wrong('must be a quantity of CPUs, such as 2, 1.5 or "250m"') from None
    if milli > MAX_MILLI_CPU:
        raise wrong("must be at most 512 CPUs")
    return milli


def _size_or_none(value: object) -> int:
    try:
        size_bytes = parse_bytes(value)
    except InvalidInput:
        raise wrong('must be a quantity of bytes, such as "32Gi"') from None
    if size_bytes > MAX_BYTES:
        raise wrong("must be at most 1Ei")
    return size_bytes


def _some_cpu(value: object) -> int:
    return _above_zero(_cpu_or_none(value))


def _some_size(value: object) -> int:
    return _above_zero(_size_or_none(value))


def _above_zero(amount: int) -> int:
    if amount == 0:
        raise wrong("must not be zero")
    return amount


def show_size(size_bytes: int) -> int | str:
    """The shortest exact quantity: `"32Gi"`; bytes where no binary unit comes out even."""
    for power, suffix in ((5, "Pi"), (4, "Ti"), (3, "Gi"), (2, "Mi"), (1, "Ki")):
        if size_bytes and size_bytes % 1024**power == 0:
            return f"{size_bytes // 1024**power}{suffix}"
    return size_bytes


Cpu = Annotated[int, PlainValidator(_some_cpu), PlainSerializer(format_milli_cpu)]
"""milli-vCPU, above zero."""
ReservedCpu = Annotated[int, PlainValidator(_cpu_or_none), PlainSerializer(format_milli_cpu)]
"""milli-vCPU, zero for none."""
Size = Annotated[int, PlainValidator(_some_size), PlainSerializer(show_size)]
"""Bytes, above zero."""
ReservedSize = Annotated[int, PlainValidator(_size_or_none), PlainSerializer(show_size)]
"""Bytes, zero for none."""


class ComputeUnitSettings(Section):
    """The step in which VMs grow and shrink."""

    milli_cpu: Cpu = setting("250m", "CPU of a unit, a quantity of CPUs", alias="vCPUs")
    mem: Annotated[int, Field(gt=0, le=1_000_000)] = setting(1, "memory of a unit", "slots")

    def resources(self) -> Resources:
        """The unit as the core counts."""
        return resources(self.milli_cpu, self.mem)
