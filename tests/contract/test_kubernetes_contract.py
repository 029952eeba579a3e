"""What we rely on of an API server: the double, and a real one where KUBEBUILDER_ASSETS names a folder.

Each test is about the answers, not about our client, so that the double can't be wrong unnoticed.
"""

from __future__ import annotations

import pytest

from app.protocols.managed_fields import UseWriters, use_writers
from tests.fakes.neonvm_cluster import vm_object
from tests.kube_subject import BASE, CPU, SLOTS, Subject, version


@pytest.mark.parametrize("told", ["1", 1.5, True, None, 2])
def test_a_test_of_another_value_refuses_the_whole_patch(kube: Subject, told: object) -> None:
    name = kube.name("a")
    before = kube.create(name)
    answer = kube.patch(name, ("replace", "/spec/guest/memorySlots/use", 5), ("test", CPU, told))
    assert (answer.status_code, answer.json()["reason"]) == (422, "Invalid")
    assert kube.get(name) == before


def test_a_test_of_the_value_as_it_is_spelt_lets_the_patch_pass(kube: Subject) -> None:
    name = kube.name("a")
    before = kube.create(name)
    answer = kube.patch(name, ("test", CPU, 1), ("replace", CPU, "1250m"))
    assert answer.status_code == 200
    assert answer.json()["spec"]["guest"]["cpus"]["use"] == "1250m"
    assert version(answer.json()) > version(before)
    assert answer.json() == kube.get(name)
    assert kube.patch(name, ("test", CPU, "1250m"), ("replace", CPU, 1)).status_code == 200


def test_a_patch_that_changes_nothing_makes_no_version(kube: Subject) -> None:
    name = kube.name("a")
    before = kube.create(name)
    assert version(kube.patch(name, ("replace", CPU, 1)).json()) == version(before)


def test_a_replacement_of_a_field_that_is_not_there_puts_it_there(kube: Subject) -> None:
    name = kube.name("a")
    kube.create(name)
    answer = kube.patch(name, ("replace", "/spec/guest/memoryProvider", "DIMMSlots"))
    assert answer.status_code == 200
    assert answer.json()["spec"]["guest"]["memoryProvider"] == "DIMMSlots"


@pytest.mark.parametrize(
    "operation",
    [
        ("replace", "/spec/nowhere/at/all", 1),
        ("add", "/spec/nowhere/at/all", 1),
        ("remove", "/spec/guest/memoryProvider", None),
        ("test", "/spec/guest/memoryProvider", "DIMMSlots"),
        ("test", "/spec/nowhere/at/all", 1),
        ("dance", CPU, 1),
    ],
)
def test_what_cannot_be_done_with_what_is_not_there_is_refused(
    kube: Subject, operation: tuple[str, str, object]
) -> None:
    name = kube.name("a")
    before = kube.create(name)
    answer = kube.patch(name, ("replace", CPU, 2), operation)
    assert (answer.status_code, answer.json()["reason"]) == (422, "Invalid")
    assert kube.get(name) == before


def test_what_is_not_there_passes_a_test_of_null(kube: Subject) -> None:
    name = kube.name("a")
    kube.create(name)
    assert (
        kube.patch(name, ("test", "/spec/guest/memoryProvider", None), ("replace", CPU, 2)).status_code == 200
    )


def test_patches_that_are_none(kube: Subject) -> None:
    name = kube.name("a")
    kube.create(name)
    assert kube.ask("PATCH", f"{BASE}/{name}", {"op": "test"}).status_code == 400
    assert kube.send("PATCH", f"{BASE}/{name}", "[]", "text/plain", {}).status_code == 415
    assert kube.patch(kube.name("nobody"), ("replace", CPU, 1)).status_code == 404


def test_the_status_is_changed_by_its_subresource_and_by_nothing_else(kube: Subject) -> None:
    name = kube.name("a")
    assert "status" not in kube.create(name)
    both = [("add", "/status", {"cpus": "3"}), ("replace", CPU, 3)]
    kube.patch(name, ("replace", CPU, 2))
    assert kube.patch(name, ("add", "/status", {"cpus": "2"}), sub="/status").status_code == 200
    assert kube.patch(name, *both).status_code == 200
    found = kube.get(name)
    assert (found["status"]["cpus"], found["spec"]["guest"]["cpus"]["use"]) == ("2", 3)
    assert kube.patch(name, ("add", "/status/cpus", "4"), ("replace", CPU, 1), sub="/status").ok
    found = kube.get(name)
    assert (found["status"]["cpus"], found["spec"]["guest"]["cpus"]["use"]) == ("4", 3)


def test_an_update_on_an_old_version_is_a_conflict(kube: Subject) -> None:
    name = kube.name("a")
    old = kube.create(name)
    kube.patch(name, ("replace", CPU, 2))
    answer = kube.ask("PUT", f"{BASE}/{name}", old)
    assert (answer.status_code, answer.json()["reason"]) == (409, "Conflict")


def test_a_name_is_had_once_and_then_by_another_object(kube: Subject) -> None:
    name = kube.name("a")
    first = kube.create(name)
    answer = kube.ask("POST", BASE, vm_object(name))
    assert (answer.status_code, answer.json()["reason"]) == (409, "AlreadyExists")
    assert kube.ask("DELETE", f"{BASE}/{name}").status_code == 200
    answer = kube.ask("GET", f"{BASE}/{name}")
    assert (answer.status_code, answer.json()["reason"]) == (404, "NotFound")
    assert kube.create(name)["metadata"]["uid"] != first["metadata"]["uid"]
    stale = kube.patch(name, ("test", "/metadata/uid", first["metadata"]["uid"]), ("replace", CPU, 2))
    assert stale.status_code == 422


def test_who_set_each_field_is_kept_account_of(kube: Subject) -> None:
    name = kube.name("a")
    creator = use_writers(kube.create(name)).cpu
    assert creator not in (None, "vmscaler")
    kube.patch(name, ("replace", CPU, 2), ("replace", SLOTS, 4))
    assert use_writers(kube.get(name)) == UseWriters("vmscaler", creator)
    kube.patch(name, ("replace", SLOTS, 5))
    assert use_writers(kube.get(name)) == UseWriters("vmscaler", "vmscaler")


def test_an_event_on_an_object_is_taken_once(kube: Subject) -> None:
    vm = kube.create(kube.name("a"))
    about = {"kind": "VirtualMachine", "namespace": "sim", "name": vm["metadata"]["name"]}
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"namespace": "sim", "name": kube.name("event")},
        "involvedObject": {"apiVersion": "vm.neon.tech/v1", "uid": vm["metadata"]["uid"], **about},
        "type": "Warning",
        "reason": "Unreadable",
        "message": "not scaled",
    }
    codes = [kube.ask("POST", "/api/v1/namespaces/sim/events", event).status_code for _ in range(2)]
    assert codes == [201, 409]
