"""The permit protocol: bodies of every version, both sides."""

from __future__ import annotations

import json
from typing import Any

import pytest

from app.core.model import Metrics
from app.core.resources import Resources, resources
from app.errors import InvalidInput
from app.protocols.scheduler import (
    MAX_BODY_BYTES,
    PLUGIN_PROTOCOL_VERSION,
    Amount,
    PermitRequest,
    PermitResponse,
    ProtocolVersion,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)

GIB = 2**30
UNIT = resources(250, 1)
SAMPLE = Metrics(0.5, 0.4, 1.5e9)
V = ProtocolVersion


def request(version: V, **changes: Any) -> dict[str, Any]:
    arguments: dict[str, Any] = {
        "last_permit": None,
        "compute_unit": UNIT,
        "metrics": SAMPLE,
        "slot_bytes": GIB,
    }
    arguments.update(changes)
    target: Resources = arguments.pop("target", resources(500, 2))
    body: dict[str, Any] = json.loads(encode_request(version, ("n", "p"), target, **arguments))
    return body


def answer(body: object, version: V = V.V2_0, target: Resources = UNIT) -> PermitResponse:
    return decode_response(json.dumps(body).encode(), version, target=target, slot_bytes=GIB)


def test_the_default_request_is_spelt_as_existing_schedulers_read_it() -> None:
    assert request(PLUGIN_PROTOCOL_VERSION) == {
        "protoVersion": 3,
        "pod": {"name": "p", "namespace": "n"},
        "resources": {"vCPUs": "500m", "mem": 2},
        "metrics": {"loadAvg1M": 0.5, "loadAvg5M": 0.4, "memoryUsageBytes": 1.5e9},
    }


def test_versions_are_numbered_as_on_the_wire_and_named_as_in_talk() -> None:
    assert [(int(v), str(v)) for v in V] == [
        (1, "v1.0"), (2, "v1.1"), (3, "v2.0"), (4, "v2.1"), (5, "v3.0"), (6, "v4.0"), (7, "v5.0")
    ]  # fmt: skip


def test_an_integral_number_of_cpus_is_a_json_number() -> None:
    assert request(V.V2_0, target=resources(2000, 1))["resources"] == {"vCPUs": 2, "mem": 1}


def test_below_v2_0_cpus_are_rounded_up_and_the_answer_is_brought_back_down() -> None:
    assert request(V.V1_1, target=resources(1250, 1))["resources"]["vCPUs"] == 2
    body = {"permit": {"vCPUs": 2, "mem": 1}, "resourceUnit": {"vCPUs": 1, "mem": 1}}
    assert answer(body, V.V1_1, resources(1250, 1)).permit == resources(1250, 1)
    assert answer(body, V.V1_1, resources(2500, 1)).permit == resources(2000, 1)


def test_missing_metrics_are_null_but_zeros_in_v1_0() -> None:
    assert request(V.V1_1, metrics=None)["metrics"] is None
    assert request(V.V1_0, metrics=None)["metrics"] == {"loadAvg1M": 0, "loadAvg5M": 0, "memoryUsageBytes": 0}


@pytest.mark.parametrize("version", list(V))
def test_each_version_has_its_fields_and_no_others(version: V) -> None:
    body = request(version, last_permit=resources(1000, 3))
    assert ("lastPermit" in body, "computeUnit" in body) == (version >= V.V2_1, version >= V.V4_0)
    assert set(body["metrics"]) == (
        {"loadAvg1M"} if version is V.V5_0 else {"loadAvg1M", "loadAvg5M", "memoryUsageBytes"}
    )
    in_bytes = version >= V.V4_0
    assert body["resources"]["mem"] == (2 * GIB if in_bytes else 2)
    if version >= V.V2_1:
        assert body["lastPermit"] == {"vCPUs": 1, "mem": 3 * GIB if in_bytes else 3}
        assert request(version)["lastPermit"] is None
    if in_bytes:
        assert body["computeUnit"] == {"vCPUs": "250m", "mem": GIB}


@pytest.mark.parametrize("version", list(V))
def test_a_request_reads_back_as_it_was_written(version: V) -> None:
    target, last = resources(3000, 2), resources(1000, 3)
    read = decode_request(
        encode_request(
            version, ("n", "p"), target, last_permit=last, compute_unit=UNIT, metrics=SAMPLE, slot_bytes=GIB
        )
    )
    assert (read.version, read.namespace, read.name) == (version, "n", "p")
    assert read.target.in_slots(version, GIB) == target
    assert (read.last_permit and read.last_permit.in_slots(version, GIB)) == (
        last if version >= V.V2_1 else None
    )
    assert (read.compute_unit and read.compute_unit.in_slots(version, GIB)) == (
        UNIT if version >= V.V4_0 else None
    )


@pytest.mark.parametrize("version", list(V))
@pytest.mark.parametrize("is_migrating", [True, False])
def test_a_response_reads_back_as_it_was_written(version: V, is_migrating: bool) -> None:
    unit, permit = resources(1000, 1), resources(2000, 2)
    body = encode_response(version, permit, compute_unit=unit, is_migrating=is_migrating, slot_bytes=GIB)
    read = decode_response(body, version, target=resources(9000, 9), slot_bytes=GIB)
    assert read == PermitResponse(permit, unit if version < V.V3_0 else None, is_migrating)
    assert ("migrate" in json.loads(body)) == is_migrating


def test_bytes_that_fill_no_slot_are_dropped() -> None:
    assert Amount(1000, 3 * GIB - 1).in_slots(V.V4_0, GIB) == resources(1000, 2)
    body = {"permit": {"vCPUs": "1", "mem": "2560Mi"}}
    assert answer(body, V.V4_0).permit == resources(1000, 2)


def test_cpus_are_read_as_number_or_string_and_a_null_migrate_is_none() -> None:
    body = {
        "permit": {"vCPUs": 0.5, "mem": 2},
        "migrate": None,
        "resourceUnit": {"vCPUs": "0.25", "mem": 1},
        "x": 1,
    }
    assert answer(body) == PermitResponse(resources(500, 2), UNIT, False)


GOOD = {"permit": {"vCPUs": 1, "mem": 2}, "resourceUnit": {"vCPUs": 1, "mem": 1}}


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"permit": None}, "permit"),
        ({"permit": []}, "permit"),
        ({"permit": {"mem": 2}}, "permit.vCPUs"),
        ({"permit": {"vCPUs": -1, "mem": 2}}, "permit.vCPUs"),
        ({"permit": {"vCPUs": 1e9, "mem": 2}}, "permit.vCPUs"),
        ({"permit": {"vCPUs": 1}}, "permit.mem"),
        ({"permit": {"vCPUs": 1, "mem": "2"}}, "permit.mem"),
        ({"permit": {"vCPUs": 1, "mem": 2.5}}, "permit.mem"),
        ({"permit": {"vCPUs": 1, "mem": True}}, "permit.mem"),
        ({"permit": {"vCPUs": 1, "mem": -1}}, "permit.mem"),
        ({"permit": {"vCPUs": 1, "mem": 2**31}}, "permit.mem"),
        ({"resourceUnit": None}, "resourceUnit"),
        ({"migrate": True}, "migrate"),
    ],
)
def test_a_broken_response_names_the_field(change: dict[str, object], where: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        answer(GOOD | change)
    assert caught.value.where == where


@pytest.mark.parametrize("body", [b"", b"[]", b"nonsense", b"\xff", b" " * (MAX_BODY_BYTES + 1)])
def test_bodies_that_are_no_objects_are_refused_on_both_sides(body: bytes) -> None:
    with pytest.raises(InvalidInput):
        decode_response(body, V.V2_0, target=UNIT, slot_bytes=GIB)
    with pytest.raises(InvalidInput):
        decode_request(body)


def read_request(change: dict[str, object]) -> PermitRequest:
    return decode_request(json.dumps(request(V.V2_0) | change).encode())


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"protoVersion": None}, "protoVersion"),
        ({"protoVersion": 0}, "protoVersion"),
        ({"protoVersion": 8}, "protoVersion"),
        ({"protoVersion": True}, "protoVersion"),
        ({"protoVersion": "3"}, "protoVersion"),
        ({"pod": "p"}, "pod"),
        ({"pod": {"name": "p"}}, "pod.namespace"),
        ({"pod": {"namespace": "n", "name": ""}}, "pod.name"),
        ({"pod": {"namespace": "n", "name": "p" * 254}}, "pod.name"),
        ({"resources": 1}, "resources"),
        ({"metrics": 1}, "metrics"),
        ({"metrics": {"loadAvg1M": "x"}}, "metrics.loadAvg1M"),
        ({"metrics": {"loadAvg5M": False}}, "metrics.loadAvg5M"),
        ({"protoVersion": 1, "metrics": None, "resources": {"vCPUs": 1, "mem": 1}}, "metrics"),
        ({"protoVersion": 2}, "resources.vCPUs"),
        ({"protoVersion": 4, "lastPermit": 3}, "lastPermit"),
        ({"protoVersion": 6}, "computeUnit"),
    ],
)
def test_a_broken_request_names_the_field(change: dict[str, object], where: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_request(change)
    assert caught.value.where == where


def test_null_metrics_are_fine_from_v1_1_on() -> None:
    assert read_request({"metrics": None}).target == Amount(500, 2)


def test_a_version_is_named_as_it_is_written() -> None:
    assert [ProtocolVersion.named(str(version)) for version in ProtocolVersion] == list(ProtocolVersion)
    with pytest.raises(KeyError):
        ProtocolVersion.named("v9.9")


@pytest.mark.parametrize(("unit", "told"), [((250, 1), (1, 4)), ((750, 2), (3, 8)), ((2000, 3), (2, 3))])
def test_below_v2_0_the_unit_is_told_as_its_smallest_multiple_of_whole_cpus(
    unit: tuple[int, int], told: tuple[int, int]
) -> None:
    body = encode_response(V.V1_1, resources(3000, 2), compute_unit=resources(*unit), slot_bytes=GIB)
    assert json.loads(body)["resourceUnit"] == {"vCPUs": told[0], "mem": told[1]}


def test_the_longest_name_and_body_are_read() -> None:
    body = json.dumps(request(V.V2_0) | {"pod": {"namespace": "n", "name": "p" * 253}}).encode()
    assert len(decode_request(body).name) == 253
    assert decode_request(body + b" " * (65_536 - len(body))).version is V.V2_0
    with pytest.raises(InvalidInput, match="over 65536 bytes"):
        decode_request(body + b" " * (65_537 - len(body)))
