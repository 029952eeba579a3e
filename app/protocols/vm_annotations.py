"""The annotations with which a NeonVM VM brings bounds and targets of its own (`spec/neonvm.md`)."""

from __future__ import annotations

from app.core.model import ScalingConfig
from app.core.resources import Resources, resources
from app.errors import InvalidInput
from app.protocols.bounded_json import read_json_object
from app.protocols.object_fields import Object, inner, required
from app.protocols.quantity import parse_bytes, parse_milli_cpu

BOUNDS_ANNOTATION = "autoscaling.neon.tech/bounds"
CONFIG_ANNOTATION = "autoscaling.neon.tech/config"

MIN_MILLI_CPU, MAX_MILLI_CPU = 50, 512_000
"""What a bound of CPUs may be."""

MAX_SLOTS = 2**31 - 1
"""The greatest `int32`, which is what the objects hold."""

MAX_ANNOTATION_BYTES = 4096


def read_bounds(text: object, where: str, slot_bytes: int) -> tuple[Resources, Resources]:
    """(min, max) of a `bounds` annotation; both are to be above zero, memory in whole slots.

    Args:
        where: the annotation's path, for errors.

    Raises:
        InvalidInput: a part that is missing or wrong, named by its path.
    """
    value = _annotation(text, where)
    return _bound(value, "min", where, slot_bytes), _bound(value, "max", where, slot_bytes)


def read_targets(text: object, defaults: ScalingConfig) -> ScalingConfig | None:
    """Targets of a `config` annotation, those that it leaves out from `defaults`; None without one.

    Raises:
        InvalidInput: a target out of range, named by its path.
    """
    if text is None:
        return None
    where = f".metadata.annotations[{CONFIG_ANNOTATION}]"
    value = _annotation(text, where)
    load = _fraction(value, "loadAverageFractionTarget", where, below=2)
    mem = _fraction(value, "memoryUsageFractionTarget", where, below=1)
    return ScalingConfig(
        defaults.load_average_fraction_target if load is None else load,
        defaults.memory_usage_fraction_target if mem is None else mem,
    )


def check_cpu_bound(milli: int, where: str) -> int:
    """`milli`, if it may be a bound of CPUs. Raises InvalidInput otherwise."""
    if not MIN_MILLI_CPU <= milli <= MAX_MILLI_CPU:
        raise InvalidInput(where, "must be 0.05 to 512 CPUs")
    return milli


def _annotation(text: object, where: str) -> Object:
    if not isinstance(text, str):
        raise InvalidInput(where, "must be JSON text")
    return read_json_object(text.encode("utf-8", "replace"), max_bytes=MAX_ANNOTATION_BYTES, where=where)


def _bound(value: Object, name: str, where: str, slot_bytes: int) -> Resources:
    bound = inner(value, name)
    cpu_at, mem_at = f"{where}.{name}.cpu", f"{where}.{name}.mem"
    milli = parse_milli_cpu(required(bound, "cpu", cpu_at), where=cpu_at)
    size = parse_bytes(required(bound, "mem", mem_at), where=mem_at)
    if size == 0:
        raise InvalidInput(mem_at, "must not be zero")
    if size % slot_bytes:
        raise InvalidInput(mem_at, f"must be a multiple of the slot size, {slot_bytes} bytes")
    if size // slot_bytes > MAX_SLOTS:
        raise InvalidInput(mem_at, f"must be at most {MAX_SLOTS} slots")
    return resources(check_cpu_bound(milli, cpu_at), size // slot_bytes)


def _fraction(value: Object, name: str, where: str, *, below: int) -> float | None:
    number = value.get(name)
    if number is None:
        return None
    # A whole number that is out of range may be too large for a float: it is compared as it is.
    if isinstance(number, bool) or not isinstance(number, int | float) or not 0 < number < below:
        raise InvalidInput(f"{where}.{name}", f"must be a number above 0 and below {below}")
    return float(number)
