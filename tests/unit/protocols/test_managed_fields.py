"""Who wrote a VM's `use` last, by the account that the API server keeps."""

from __future__ import annotations

from typing import Any

import pytest

from app.protocols.managed_fields import MAX_ENTRIES, use_writer

CPU = {"f:spec": {"f:guest": {"f:cpus": {"f:use": {}}}}}
MEMORY = {"f:spec": {"f:guest": {"f:memorySlots": {"f:use": {}}}}}
OTHER = {"f:spec": {"f:guest": {"f:cpus": {"f:max": {}}}}, "f:status": {"f:cpus": {}}}


def entry(manager: object, fields: object, time: object = "2026-01-01T00:00:00Z") -> dict[str, Any]:
    return {"manager": manager, "operation": "Update", "fieldsV1": fields, "time": time}


def vm(*entries: object) -> dict[str, Any]:
    return {"metadata": {"managedFields": list(entries)}}


@pytest.mark.parametrize("fields", [CPU, MEMORY])
def test_whoever_owns_one_of_the_two_fields_has_written_it(fields: dict[str, Any]) -> None:
    assert use_writer(vm(entry("controller", OTHER), entry("autoscaler-agent", fields))) == "autoscaler-agent"


def test_of_two_the_later_one_is_named() -> None:
    ours = entry("vmscaler", CPU, "2026-01-01T00:00:05Z")
    assert use_writer(vm(ours, entry("kubectl", MEMORY, "2026-01-01T00:00:04Z"))) == "vmscaler"
    assert use_writer(vm(ours, entry("kubectl", MEMORY, "2026-01-01T00:00:06Z"))) == "kubectl"


def test_of_two_of_one_second_the_stranger_is_named() -> None:
    assert use_writer(vm(entry("vmscaler", CPU), entry("a", MEMORY))) == "a"
    assert use_writer(vm(entry("zebra", CPU), entry("vmscaler", MEMORY))) == "zebra"


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
    assert use_writer(item) is None


def test_a_name_that_acts_on_terminals_is_escaped() -> None:
    assert use_writer(vm(entry("\x1b[2J", CPU, 7))) == "\\x1b[2J"
