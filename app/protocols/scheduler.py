"""The permit protocol between agent and scheduler, v1.0 to v5.0 (`spec/scheduler-protocol.md`).

The agent encodes requests and decodes responses, the built-in scheduler the reverse. Inside, memory is in
slots; up to v3.0 it is on the wire too, from v4.0 on it is in bytes there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum

from app.core.model import Metrics
from app.core.resources import Resources, resources
from app.errors import InvalidInput
from app.protocols.bounded_json import read_json_object, write_json
from app.protocols.quantity import format_milli_cpu, parse_bytes, parse_milli_cpu

MAX_BODY_BYTES = 64 * 1024
"""Longest request or response that is read."""

MAX_SLOTS = 2**31 - 1
MAX_MILLI_CPU = 2**31 - 1
MAX_NAME_LENGTH = 253
"""Characters; Kubernetes' limit for the names of objects."""


class ProtocolVersion(IntEnum):
    """Versions by their number on the wire."""

    V1_0 = 1
    V1_1 = 2
    """`metrics` may be null."""
    V2_0 = 3
    """CPUs may be fractions."""
    V2_1 = 4
    """The request has `lastPermit`."""
    V3_0 = 5
    """The response has no `resourceUnit`."""
    V4_0 = 6
    """Memory in bytes; the request has `computeUnit`."""
    V5_0 = 7
    """`metrics` keeps only `loadAvg1M`."""

    def __str__(self) -> str:
        return self.name.lower().replace("_", ".")

    @classmethod
    def named(cls, text: str) -> ProtocolVersion:
        """The version that is written so, such as `v2.0`. Raises KeyError."""
        return cls[text.upper().replace(".", "_")]


PLUGIN_PROTOCOL_VERSION = ProtocolVersion.V2_0
"""What our agents speak unless the configuration says otherwise."""


@dataclass(frozen=True, slots=True)
class Amount:
    """CPU and memory as they stand on the wire; what memory is counted in depends on the version.

    Attributes:
        milli_cpu: milli-vCPU.
        mem: slots up to v3.0, bytes from v4.0 on.
    """

    milli_cpu: int
    mem: int

    def in_slots(self, version: ProtocolVersion, slot_bytes: int) -> Resources:
        """The amount in slots; bytes that fill no slot are dropped."""
        return resources(
            self.milli_cpu, self.mem if version < ProtocolVersion.V4_0 else self.mem // slot_bytes
        )


@dataclass(frozen=True, slots=True)
class PermitRequest:
    """A request as the scheduler reads it. Amounts need the VM's slot size: see `Amount.in_slots`.

    Attributes:
        last_permit: what the agent says it was granted last; None before v2.1, or if it never was.
        compute_unit: the agent's unit; None before v4.0.
    """

    version: ProtocolVersion
    namespace: str
    name: str
    target: Amount
    last_permit: Amount | None
    compute_unit: Amount | None


@dataclass(frozen=True, slots=True)
class PermitResponse:
    """A response as the agent reads it.

    Attributes:
        compute_unit: None from v3.0 on: the agent's own counts.
        is_migrating: the VM is about to migrate: its size must not change any more.
    """

    permit: Resources
    compute_unit: Resources | None
    is_migrating: bool


def encode_request(
    version: ProtocolVersion,
    pod: tuple[str, str],
    target: Resources,
    *,
    last_permit: Resources | None,
    compute_unit: Resources,
    metrics: Metrics | None,
    slot_bytes: int,
) -> bytes:
    """The body of a request.

    Below v2.0 there are no fractions: CPUs are rounded up, for the scheduler must hold an upper bound. v1.0
    knows no missing metrics: they are zeros there.

    Args:
        pod: namespace and name.
        last_permit: sent from v2.1 on.
        compute_unit: sent from v4.0 on.
        slot_bytes: the VM's slot size.
    """
    whole = version < ProtocolVersion.V2_0
    body: dict[str, object] = {
        "protoVersion": int(version),
        "pod": {"name": pod[1], "namespace": pod[0]},
        "resources": _amount(version, _whole_cpus(target) if whole else target, slot_bytes),
    }
    if version >= ProtocolVersion.V2_1:
        body["lastPermit"] = None if last_permit is None else _amount(version, last_permit, slot_bytes)
    if version >= ProtocolVersion.V4_0:
        body["computeUnit"] = _amount(version, compute_unit, slot_bytes)
    body["metrics"] = _metrics(version, metrics)
    return write_json(body)


def decode_response(
    body: bytes, version: ProtocolVersion, *, target: Resources, slot_bytes: int
) -> PermitResponse:
    """Read the scheduler's answer to a request for `target`. Below v2.0 the rounding up is taken back.

    Raises:
        InvalidInput: not what a scheduler of that version sends; `where` is the field's path.
    """
    document = read_json_object(body, max_bytes=MAX_BODY_BYTES, where="response")
    permit = _read_amount(document, "permit", version).in_slots(version, slot_bytes)
    if version < ProtocolVersion.V2_0 and permit.cpu == _whole_cpus(target).cpu:
        permit = Resources(target.cpu, permit.mem)
    migrate = document.get("migrate")
    if migrate is not None and not isinstance(migrate, dict):
        raise InvalidInput("migrate", "expected an object")
    unit = None
    if version < ProtocolVersion.V3_0:
        # Below v2.0 permits are whole CPUs, but schedulers' units are parts of one: ours too, 250m.
        unit = _read_amount(document, "resourceUnit", ProtocolVersion.V2_0).in_slots(version, slot_bytes)
    return PermitResponse(permit, unit, is_migrating=migrate is not None)


def decode_request(body: bytes) -> PermitRequest:
    """Read an agent's request, of any version.

    Raises:
        InvalidInput: the scheduler answers 400 with its text; `where` is the field's path.
    """
    document = read_json_object(body, max_bytes=MAX_BODY_BYTES, where="request")
    number = document.get("protoVersion")
    if isinstance(number, bool) or not isinstance(number, int) or number not in set(ProtocolVersion):
        raise InvalidInput("protoVersion", "expected a version from 1 (v1.0) to 7 (v5.0)")
    version = ProtocolVersion(number)
    pod = document.get("pod")
    if not isinstance(pod, dict):
        raise InvalidInput("pod", "expected an object")
    _check_metrics(document.get("metrics"), version)
    last_permit = compute_unit = None
    if version >= ProtocolVersion.V2_1 and document.get("lastPermit") is not None:
        last_permit = _read_amount(document, "lastPermit", version)
    if version >= ProtocolVersion.V4_0:
        compute_unit = _read_amount(document, "computeUnit", version)
    return PermitRequest(
        version=version,
        namespace=_read_name(pod, "namespace"),
        name=_read_name(pod, "name"),
        target=_read_amount(document, "resources", version),
        last_permit=last_permit,
        compute_unit=compute_unit,
    )


def encode_response(
    version: ProtocolVersion,
    permit: Resources,
    *,
    compute_unit: Resources,
    is_migrating: bool = False,
    slot_bytes: int,
) -> bytes:
    """The body of an answer; `compute_unit` is sent below v3.0, and below v2.0 a multiple of whole CPUs."""
    body: dict[str, object] = {"permit": _amount(version, permit, slot_bytes)}
    if is_migrating:
        body["migrate"] = {}
    if version < ProtocolVersion.V3_0:
        unit = _whole_unit(compute_unit) if version < ProtocolVersion.V2_0 else compute_unit
        body["resourceUnit"] = _amount(version, unit, slot_bytes)
    return write_json(body)


def _whole_cpus(amount: Resources) -> Resources:
    """The amount with its CPUs rounded up to whole ones."""
    return resources(-(-amount.cpu // 1000) * 1000, amount.mem)


def _whole_unit(unit: Resources) -> Resources:
    """The smallest multiple with whole CPUs: agents of that age read no fraction, and multiples of it fit."""
    times = 1000 // math.gcd(unit.cpu, 1000)
    return resources(unit.cpu * times, unit.mem * times)


def _amount(version: ProtocolVersion, amount: Resources, slot_bytes: int) -> dict[str, object]:
    mem = amount.mem if version < ProtocolVersion.V4_0 else amount.mem * slot_bytes
    return {"vCPUs": format_milli_cpu(amount.cpu), "mem": mem}


def _metrics(version: ProtocolVersion, metrics: Metrics | None) -> dict[str, float] | None:
    if metrics is None:
        if version > ProtocolVersion.V1_0:
            return None
        metrics = Metrics(0.0, 0.0, 0.0)
    if version >= ProtocolVersion.V5_0:
        return {"loadAvg1M": metrics.load1}
    return {"loadAvg1M": metrics.load1, "loadAvg5M": metrics.load5, "memoryUsageBytes": metrics.mem_bytes}


def _check_metrics(value: object, version: ProtocolVersion) -> None:
    """The scheduler decides nothing by metrics, but a request with broken ones is broken."""
    if value is None and version > ProtocolVersion.V1_0:
        return
    if not isinstance(value, dict):
        raise InvalidInput("metrics", "expected an object")
    for name in ("loadAvg1M", "loadAvg5M", "memoryUsageBytes"):
        number = value.get(name)
        if number is not None and (isinstance(number, bool) or not isinstance(number, int | float)):
            raise InvalidInput(f"metrics.{name}", "expected a number")


def _read_name(pod: dict[str, object], key: str) -> str:
    name = pod.get(key)
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME_LENGTH:
        raise InvalidInput(f"pod.{key}", f"expected 1 to {MAX_NAME_LENGTH} characters")
    return name


def _read_amount(document: dict[str, object], key: str, version: ProtocolVersion) -> Amount:
    value = document.get(key)
    if not isinstance(value, dict):
        raise InvalidInput(key, "expected an object")
    milli = parse_milli_cpu(value.get("vCPUs"), where=f"{key}.vCPUs")
    if milli > MAX_MILLI_CPU:
        raise InvalidInput(f"{key}.vCPUs", "too large")
    if version < ProtocolVersion.V2_0 and milli % 1000:
        raise InvalidInput(f"{key}.vCPUs", f"a fraction, which {version} does not know")
    mem = value.get("mem")
    if version >= ProtocolVersion.V4_0:
        return Amount(milli, parse_bytes(mem, where=f"{key}.mem"))
    if isinstance(mem, bool) or not isinstance(mem, int) or not 0 <= mem <= MAX_SLOTS:
        raise InvalidInput(f"{key}.mem", "expected a number of memory slots")
    return Amount(milli, mem)
