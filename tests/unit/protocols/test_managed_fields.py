"""Who wrote a VM's `use` last, by the account that the API server keeps."""

from __future__ import annotations

from typing import Any

import pytest

from app.core.resources import resources
from app.protocols.managed_fields import MAX_ENTRIES, UseWriters, use_writers

CPU = {"f:spec": {"f:guest": {"f:cpus": {"f:use": {}}}}}
MEMORY = {"f:spec": {"f:guest": {"f:memorySlots": {"f:use": {}}}}}
OTHER = {"f:spec": {"f:guest": {"f:cpus": {"f:max": {}}}}, "f:status": {"f:cpus": {}}}


def entry(manager: object, fields: object, time: object = "2026-01-01T00:00:00Z") -> dict[str, Any]:
    return {"manager": manager, "operation": "Update", "fieldsV1": fields, "time": time}


def vm(*entries: object) -> dict[str, Any]:
    return {"metadata": {"managedFields": list(entries)}}


def test_each_field_has_the_writer_that_owns_it() -> None:
    item = vm(entry("controller", OTHER), entry("autoscaler-agent", CPU), entry("kubectl", MEMORY))
    assert use_writers(item) == UseWriters("autoscaler-agent", "kubectl")


@pytest.mark.parametrize(("time", "writer"), [("04", "vmscaler"), ("05", "a"), ("06", "a")])
def test_of_several_of_one_field_it_is_the_latest_and_in_one_second_the_stranger(
    time: str, writer: str
) -> None:
    ours = entry("vmscaler", CPU, "2026-01-01T00:00:05Z")
    assert use_writers(vm(ours, entry("a", CPU, f"2026-01-01T00:00:{time}Z"))).cpu == writer


def test_a_change_is_put_down_to_the_writer_of_what_has_changed() -> None:
    writers, before = UseWriters("agent", "kubectl"), resources(1000, 4)
    assert writers.of_change(before, resources(2000, 4)) == "agent"
    assert writers.of_change(before, resources(1000, 5)) == "kubectl"
    assert writers.of_change(before, before) is None


def test_of_a_change_of_both_the_stranger_is_named() -> None:
    both = resources(1000, 4), resources(2000, 5)
    assert UseWriters("vmscaler", "agent").of_change(*both) == "agent"
    assert UseWriters("agent", "vmscaler").of_change(*both) == "agent"
    assert UseWriters("vmscaler", "vmscaler").of_change(*both) == "vmscaler"
    assert UseWriters(None, "vmscaler").of_either() == "vmscaler"


@pytest.mark.parametrize(
    "item",
    [
        {},
        {"metadata": None},
        {"metadata": {"managedFields": {}}},
        vm(),
        vm(None, 7, "x", []),
        vm(entry("a", OTHER)),
        vm(entry("a", {"f:spec": {"f:guest": []}})),
        vm(entry("", CPU), entry(7, CPU), entry(None, CPU)),
        vm(*[entry("a", OTHER)] * MAX_ENTRIES, entry("beyond", CPU)),
    ],
)
def test_where_nothing_is_told_nobody_is_named(item: dict[str, Any]) -> None:
    assert use_writers(item) == UseWriters()


def test_a_name_that_acts_on_terminals_is_escaped() -> None:
    assert use_writers(vm(entry("\x1b[2J", CPU, 7))).cpu == "\\x1b[2J"
