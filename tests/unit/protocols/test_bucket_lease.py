"""What a Lease object says and what is written to it; whatever is wrong is named by its path."""

from __future__ import annotations

from typing import Any

import pytest

from app.errors import InvalidInput
from app.protocols.bucket_lease import (
    MAX_DURATION_S,
    MAX_TOKEN,
    MAX_TRANSITIONS,
    BucketLease,
    fleet_name,
    new_lease,
    object_name,
    read_lease,
    with_lease,
)

BUCKET = "autoscaler-bucket-2047-of-2048"
TIME = "2026-01-31T12:00:00.000000Z"
HELD = BucketLease("vmscaler-0_10.0.0.1", "agent-1", 1_700_000_000_001, 7, 15, TIME, TIME)


def test_what_was_written_is_read_again() -> None:
    item = with_lease(new_lease("a", "ns"), HELD, "vmscaler")
    assert read_lease(item) == HELD
    assert item["spec"]["holderIdentity"] == "vmscaler-0_10.0.0.1"
    assert item["metadata"]["labels"] == {"vmscaler/fleet": "vmscaler"}
    assert (HELD.is_free, HELD.highest) == (False, HELD.token)


def test_fields_that_are_not_ours_stay() -> None:
    item = new_lease("a", "ns")
    item["metadata"] |= {"labels": {"team": "db"}, "annotations": {"note": "x"}, "resourceVersion": "5"}
    item["spec"] = {"strategy": "OldestEmulationVersion"}
    written = with_lease(item, HELD, "f")
    assert written["metadata"]["labels"] == {"team": "db", "vmscaler/fleet": "f"}
    assert written["metadata"]["annotations"]["note"] == "x"
    assert (written["metadata"]["resourceVersion"], written["spec"]["strategy"]) == (
        "5",
        "OldestEmulationVersion",
    )


def test_a_released_lease_has_an_empty_holder_no_agent_and_its_token() -> None:
    held = with_lease(new_lease("a", "ns"), HELD, "f")
    item = with_lease(held, BucketLease(token=9, transitions=7), "f")
    assert item["spec"]["holderIdentity"] == ""
    assert item["spec"]["leaseDurationSeconds"] == 1  # the API server takes no 0
    found = read_lease(item)
    assert (found.is_free, found.token, found.transitions) == (True, 9, 7)


def test_a_holder_that_was_taken_away_by_hand_is_still_one() -> None:
    item = with_lease(new_lease("a", "ns"), HELD, "f")
    item["spec"]["holderIdentity"] = ""
    assert not read_lease(item).is_free


def test_of_another_programs_lease_the_identity_is_the_agent_and_the_transitions_count() -> None:
    found = read_lease({"spec": {"holderIdentity": "autoscaler-x_10.0.0.3", "leaseTransitions": 12}})
    assert (found.agent_id, found.token, found.highest) == ("autoscaler-x_10.0.0.3", 0, 12)


@pytest.mark.parametrize("item", [{}, {"spec": None, "metadata": {}}, {"metadata": {"annotations": None}}])
def test_an_empty_object_is_a_free_lease(item: dict[str, Any]) -> None:
    assert read_lease(item) == BucketLease()


def test_a_renewal_and_a_change_of_hands_give_another_stamp_and_nothing_else_does() -> None:
    item = with_lease(new_lease("a", "ns"), HELD, "f")
    before = read_lease(item).stamp
    item["metadata"]["labels"]["team"] = "db"
    item["spec"]["acquireTime"] = "2026-01-31T11:00:00Z"
    assert read_lease(item).stamp == before
    item["spec"]["renewTime"] = "2026-01-31T12:00:02+01:00"
    assert read_lease(item).stamp != before


@pytest.mark.parametrize(
    ("place", "name", "value", "path"),
    [
        ("spec", "holderIdentity", 5, ".spec.holderIdentity"),
        ("spec", "holderIdentity", "x" * 513, ".spec.holderIdentity"),
        ("spec", "holderIdentity", "a\x1b[2J_10.0.0.1", ".spec.holderIdentity"),
        ("spec", "leaseTransitions", -1, ".spec.leaseTransitions"),
        ("spec", "leaseTransitions", True, ".spec.leaseTransitions"),
        ("spec", "leaseTransitions", MAX_TRANSITIONS + 1, ".spec.leaseTransitions"),
        ("spec", "leaseDurationSeconds", "15", ".spec.leaseDurationSeconds"),
        ("spec", "leaseDurationSeconds", MAX_DURATION_S + 1, ".spec.leaseDurationSeconds"),
        ("spec", "renewTime", "yesterday", ".spec.renewTime"),
        ("spec", "acquireTime", 5, ".spec.acquireTime"),
        ("annotations", "vmscaler/token", "1e9", ".metadata.annotations[vmscaler/token]"),
        ("annotations", "vmscaler/token", "\u0661", ".metadata.annotations[vmscaler/token]"),
        ("annotations", "vmscaler/token", "9" * 17, ".metadata.annotations[vmscaler/token]"),
        ("annotations", "vmscaler/token", str(MAX_TOKEN + 1), ".metadata.annotations[vmscaler/token]"),
        ("annotations", "vmscaler/token", 7, ".metadata.annotations[vmscaler/token]"),
        ("annotations", "vmscaler/agent", [], ".metadata.annotations[vmscaler/agent]"),
    ],
)
def test_a_field_that_is_none_is_named(place: str, name: str, value: object, path: str) -> None:
    item = with_lease(new_lease("a", "ns"), HELD, "f")
    (item["metadata"]["annotations"] if place == "annotations" else item["spec"])[name] = value
    with pytest.raises(InvalidInput) as refused:
        read_lease(item)
    assert refused.value.where == path


@pytest.mark.parametrize(
    ("item", "path"),
    [
        ({"spec": []}, ".spec"),
        ({"metadata": "x"}, ".metadata"),
        ({"metadata": {"annotations": 3}}, ".metadata.annotations"),
    ],
)
def test_a_part_that_is_no_object_is_named(item: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_lease(item)
    assert refused.value.where == path


PREFIXES = [
    "vmscaler",
    "db",
    "vmscaler:node-a",
    "vmscaler:node_a",
    "Vmscaler",
    "9",
    "-",
    "a" * 64,
    "x" * 31,
    "a-",
]


def test_each_prefix_has_a_fleet_of_its_own_whose_names_an_api_server_takes() -> None:
    names = [fleet_name(prefix) for prefix in PREFIXES]
    assert len(set(names)) == len(PREFIXES)
    for name in names:
        whole = object_name(BUCKET, name)
        assert len(whole) <= 63
        assert whole[0].isalpha()
        assert whole[-1].isalnum()
        assert set(whole) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")


def test_in_the_default_fleet_objects_are_called_as_their_buckets() -> None:
    assert object_name(BUCKET, fleet_name("vmscaler")) == BUCKET
    assert object_name(BUCKET, fleet_name("db")) == f"db-{BUCKET}"
