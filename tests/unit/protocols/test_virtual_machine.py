"""NeonVM objects: which are ours, what is read from them, and the patch."""

from __future__ import annotations

import json
from typing import Any

import pytest

from app.core.model import Mode, ScalingConfig
from app.core.resources import resources
from app.errors import InvalidInput
from app.protocols.virtual_machine import (
    Selection,
    UseBasis,
    VmObject,
    is_ours,
    key_of,
    read_virtual_machine,
    resize_patch,
)
from app.protocols.vm_annotations import BOUNDS_ANNOTATION, CONFIG_ANNOTATION

ENABLED, OBSERVED = "autoscaling.neon.tech/enabled", "vmscaler/observed"
SELECTION = Selection("autoscale-scheduler", ENABLED)
DEFAULTS = ScalingConfig(0.9, 0.75)


def make_vm(**changes: Any) -> dict[str, Any]:
    """An object as an API server gives it; `changes` are values by dotted path, `...` to leave one out."""
    vm: dict[str, Any] = {
        "metadata": {
            "namespace": "prod",
            "name": "pg-1",
            "uid": "u-1",
            "labels": {ENABLED: "true"},
            "annotations": {},
        },
        "spec": {
            "schedulerName": "autoscale-scheduler",
            "guest": {
                "cpus": {"min": "250m", "max": 4, "use": "1"},
                "memorySlots": {"min": 1, "max": 8, "use": 2},
                "memorySlotSize": "1Gi",
            },
        },
        "status": {
            "phase": "Running",
            "podName": "pg-1-abc",
            "podIP": "10.0.0.7",
            "node": "node-a",
            "cpus": "1",
            "memorySize": "2Gi",
        },
    }
    for path, value in changes.items():
        *way, last = path.split("__")
        inner = vm
        for name in way:
            inner = inner[name]
        if value is ...:
            inner.pop(last)
        else:
            inner[last] = value
    return vm


def with_annotation(name: str, value: object) -> dict[str, Any]:
    return make_vm(metadata__annotations={name: value if isinstance(value, str) else json.dumps(value)})


def read(vm: dict[str, Any], selection: Selection = SELECTION) -> VmObject:
    return read_virtual_machine(vm, selection, DEFAULTS)


def test_everything_that_an_object_says_is_read() -> None:
    vm = read(make_vm(metadata__annotations={"autoscaling.neon.tech/billing-endpoint-id": "ep-1"}))
    assert (vm.namespace, vm.name, vm.uid, vm.node) == ("prod", "pg-1", "u-1", "node-a")
    assert (vm.min, vm.max, vm.use) == (resources(250, 1), resources(4000, 8), resources(1000, 2))
    assert (vm.observed, vm.slot_bytes) == (resources(1000, 2), 1 << 30)
    assert (vm.pod_name, vm.pod_ip, vm.endpoint_id) == ("pg-1-abc", "10.0.0.7", "ep-1")
    assert (vm.mode, vm.migrating, vm.scaling_config, vm.warnings) == (Mode.SCALE, False, None, ())


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, True),
        ({"metadata__labels": {ENABLED: "True"}}, False),
        ({"metadata__labels": {ENABLED: True}}, False),
        ({"metadata__labels": {}}, False),
        ({"metadata__labels": None}, False),
        ({"metadata": ...}, False),
        ({"spec__schedulerName": "default-scheduler"}, False),
        ({"spec": "text"}, False),
        ({"status": []}, False),
        ({"status__phase": "Pending"}, False),
        ({"status__phase": ["Running"]}, False),
        ({"status__phase": "Succeeded"}, False),
        ({"status__phase": "Scaling"}, True),
        ({"status__podIP": ""}, False),
        ({"status__podIP": ...}, False),
        ({"status__phase": "PreMigrating"}, True),
        ({"status__phase": "Migrating", "status__podIP": ...}, True),
    ],
)
def test_which_objects_are_ours(change: dict[str, Any], expected: bool) -> None:
    assert is_ours(make_vm(**change), SELECTION) is expected


def test_a_process_bound_to_a_node_sees_only_its_vms() -> None:
    assert is_ours(make_vm(), Selection("autoscale-scheduler", ENABLED, node="node-a"))
    assert not is_ours(make_vm(), Selection("autoscale-scheduler", ENABLED, node="node-b"))
    migrating = make_vm(status__phase="Migrating")
    assert not is_ours(migrating, Selection("autoscale-scheduler", ENABLED, node="node-b"))


def test_a_vm_with_the_observe_label_is_observed_unless_it_is_enabled_too() -> None:
    selection = Selection("autoscale-scheduler", "vmscaler/enabled", observe_label=ENABLED)
    both = make_vm(metadata__labels={ENABLED: "true", "vmscaler/enabled": "true"})
    switched = make_vm(metadata__labels={ENABLED: "false", "vmscaler/enabled": "true"})
    assert read(make_vm(), selection).mode is Mode.OBSERVE
    assert read(both, selection).mode is Mode.SCALE
    assert read(switched, selection).mode is Mode.SCALE
    assert is_ours(make_vm(), selection)


def test_while_it_migrates_a_vm_needs_no_pod_ip() -> None:
    vm = read(make_vm(status__phase="Migrating", status__podIP=...))
    assert vm.migrating
    assert vm.pod_ip is None


@pytest.mark.parametrize("missing", ["cpus", "memorySize"])
def test_a_size_of_which_half_is_missing_is_not_observed(missing: str) -> None:
    assert read(make_vm(**{f"status__{missing}": ...})).observed is None


def test_the_observed_size_is_in_whole_slots_never_more_than_there_is() -> None:
    assert read(make_vm(status__cpus="500m", status__memorySize="3000Mi")).observed == resources(500, 2)


def test_bounds_of_the_annotation_replace_those_of_the_spec() -> None:
    bounds = {"min": {"cpu": 0.5, "mem": "2Gi"}, "max": {"cpu": "2", "mem": "4Gi"}}
    vm = read(with_annotation(BOUNDS_ANNOTATION, bounds))
    assert (vm.min, vm.max) == (resources(500, 2), resources(2000, 4))


@pytest.mark.parametrize(
    ("bounds", "path", "problem"),
    [
        ({"max": {"cpu": 1, "mem": "1Gi"}}, ".min.cpu", "is missing"),
        ({"min": {"cpu": 1, "mem": "1Gi"}, "max": {"cpu": 1}}, ".max.mem", "is missing"),
        ({"min": {"cpu": 0, "mem": "1Gi"}, "max": {"cpu": 1, "mem": "1Gi"}}, ".min.cpu", "0.05"),
        ({"min": {"cpu": 1, "mem": 0}, "max": {"cpu": 1, "mem": "1Gi"}}, ".min.mem", "must not be zero"),
        ({"min": {"cpu": 1, "mem": "1Gi"}, "max": {"cpu": 1, "mem": "1500Mi"}}, ".max.mem", "multiple"),
        ({"min": {"cpu": 1, "mem": "1Gi"}, "max": {"cpu": 513, "mem": "1Gi"}}, ".max.cpu", "512"),
        ({"min": {"cpu": 2, "mem": "1Gi"}, "max": {"cpu": 1, "mem": "1Gi"}}, "", "must not exceed"),
        ({"min": {"cpu": 1, "mem": "9Ei"}, "max": {"cpu": 1, "mem": "9Ei"}}, ".min.mem", "2^63"),
        ("not json", "", "not JSON"),
        ("[1]", "", "not a JSON object"),
        ("[" * 5000, "", "over 4096 bytes"),
    ],
)
def test_bad_bounds_are_named_by_their_path(bounds: object, path: str, problem: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read(with_annotation(BOUNDS_ANNOTATION, bounds))
    assert caught.value.where == f".metadata.annotations[{BOUNDS_ANNOTATION}]{path}"
    assert problem in caught.value.problem


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"loadAverageFractionTarget": 1.5, "memoryUsageFractionTarget": 0.5}, ScalingConfig(1.5, 0.5)),
        ({"loadAverageFractionTarget": 1}, ScalingConfig(1.0, 0.75)),
        ({"memoryUsageFractionTarget": 0.25}, ScalingConfig(0.9, 0.25)),
        ({"loadAverageFractionTarget": None, "enableLFCMetrics": True}, ScalingConfig(0.9, 0.75)),
    ],
)
def test_a_vms_own_targets_replace_the_default_ones(config: object, expected: ScalingConfig) -> None:
    assert read(with_annotation(CONFIG_ANNOTATION, config)).scaling_config == expected


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("loadAverageFractionTarget", 0),
        ("loadAverageFractionTarget", 2),
        ("loadAverageFractionTarget", True),
        ("loadAverageFractionTarget", "0.5"),
        ("loadAverageFractionTarget", 10**300),
        ("memoryUsageFractionTarget", 1),
        ("memoryUsageFractionTarget", 0.0),
        ("memoryUsageFractionTarget", -0.1),
    ],
)
def test_a_target_out_of_range_is_named_by_its_path(name: str, value: object) -> None:
    with pytest.raises(InvalidInput) as caught:
        read(with_annotation(CONFIG_ANNOTATION, {name: value}))
    assert caught.value.where == f".metadata.annotations[{CONFIG_ANNOTATION}].{name}"


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"spec__guest__cpus__min": ...}, ".spec.guest.cpus.min"),
        ({"spec__guest__cpus__min": "49m"}, ".spec.guest.cpus.min"),
        ({"spec__guest__cpus__max": "512.001"}, ".spec.guest.cpus.max"),
        ({"spec__guest__cpus__use": ...}, ".spec.guest.cpus.use"),
        ({"spec__guest__cpus__use": 0}, ".spec.guest.cpus.use"),
        ({"spec__guest__cpus__use": "many"}, ".spec.guest.cpus.use"),
        ({"spec__guest__memorySlots__min": 0}, ".spec.guest.memorySlots.min"),
        ({"spec__guest__memorySlots__max": "8"}, ".spec.guest.memorySlots.max"),
        ({"spec__guest__memorySlots__use": True}, ".spec.guest.memorySlots.use"),
        ({"spec__guest__memorySlots__max": 2**31}, ".spec.guest.memorySlots.max"),
        ({"spec__guest__memorySlotSize": ...}, ".spec.guest.memorySlotSize"),
        ({"spec__guest__memorySlotSize": 0}, ".spec.guest.memorySlotSize"),
        ({"spec__guest__cpus__min": 5}, ".spec.guest"),
        ({"metadata__uid": ...}, ".metadata.uid"),
        ({"metadata__name": "bad\nname"}, ".metadata.name"),
        ({"status__podIP": "evil.example"}, ".status.podIP"),
        ({"status__cpus": "-1"}, ".status.cpus"),
        ({"spec__guest__memorySlotSize": "2Pi"}, ".spec.guest.memorySlotSize"),
        ({"metadata__annotations": {BOUNDS_ANNOTATION: 7}}, f".metadata.annotations[{BOUNDS_ANNOTATION}]"),
    ],
)
def test_a_field_that_cannot_be_read_is_named_by_its_path(change: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read(make_vm(**change))
    assert caught.value.where == path


def test_no_vm_has_more_slots_than_an_object_can_hold() -> None:
    bounds = {"min": {"cpu": 1, "mem": "4Gi"}, "max": {"cpu": 1, "mem": "4Gi"}}
    vm = with_annotation(BOUNDS_ANNOTATION, bounds)
    vm["spec"]["guest"]["memorySlotSize"] = 1
    with pytest.raises(InvalidInput, match="slots"):
        read(vm)


@pytest.mark.parametrize("status", [{"status__cpus": 0}, {"status__memorySize": "1Mi"}])
def test_a_size_of_nothing_is_not_observed(status: dict[str, Any]) -> None:
    assert read(make_vm(**status)).observed is None


@pytest.mark.parametrize("use", ["100m", 5, 600])
def test_a_use_outside_its_bounds_is_only_odd(use: object) -> None:
    (warning,) = read(make_vm(spec__guest__cpus__use=use)).warnings
    assert "is outside min" in warning


@pytest.mark.parametrize("spelling", [1, "1", "1000m", "1.0"])
def test_the_patch_tests_the_value_exactly_as_it_was_read(spelling: object) -> None:
    vm = read(make_vm(spec__guest__cpus__use=spelling))
    assert resize_patch(vm.uid, vm.basis, resources(1250, 3)) == [
        {"op": "test", "path": "/metadata/uid", "value": "u-1"},
        {"op": "test", "path": "/spec/guest/cpus/use", "value": spelling},
        {"op": "test", "path": "/spec/guest/memorySlots/use", "value": 2},
        {"op": "replace", "path": "/spec/guest/cpus/use", "value": "1250m"},
        {"op": "replace", "path": "/spec/guest/memorySlots/use", "value": 3},
    ]


def test_whole_cpus_are_patched_as_a_number() -> None:
    assert resize_patch("u", UseBasis("250m", 1), resources(2000, 1))[3]["value"] == 2


@pytest.mark.parametrize("vm", [{}, {"metadata": 3}, {"metadata": {"name": 3, "namespace": ""}}])
def test_an_object_without_a_name_has_a_question_mark_for_it(vm: dict[str, Any]) -> None:
    assert key_of(vm) == ("?", "?")


def test_the_endpoint_label_identifies_a_vm_without_a_billing_id() -> None:
    assert read(make_vm(metadata__labels={ENABLED: "true", "neon/endpoint-id": "ep-2"})).endpoint_id == "ep-2"
