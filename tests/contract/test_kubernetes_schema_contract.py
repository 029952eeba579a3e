"""What a CRD's schema makes of objects: quantities in every spelling, refusals, what is cut off or put in."""

from __future__ import annotations

import pytest

from tests.fakes.neonvm_cluster import vm_object
from tests.kube_subject import BASE, CPU, SLOTS, Subject, version


@pytest.mark.parametrize("told", [1, "1", "1000m", "1.5", "0.25", "1.", "2e3m"])
def test_a_quantity_is_kept_as_it_is_spelt(kube: Subject, told: object) -> None:
    name = kube.name("a")
    kube.create(name)
    assert kube.patch(name, ("replace", CPU, told)).status_code == 200
    assert kube.get(name)["spec"]["guest"]["cpus"]["use"] == told


@pytest.mark.parametrize("told", [1, "1", "1000m", "1.0"])
@pytest.mark.parametrize("tested", [1, "1", "1000m", "1.0"])
def test_only_a_test_of_the_same_spelling_passes(kube: Subject, told: object, tested: object) -> None:
    name = kube.name("a")
    kube.create(name)
    kube.patch(name, ("replace", CPU, told))
    answer = kube.patch(name, ("test", CPU, tested), ("replace", CPU, 3))
    assert answer.status_code == (200 if (type(told), told) == (type(tested), tested) else 422)


@pytest.mark.parametrize(
    ("path", "told"),
    [
        (CPU, 1.5),
        (CPU, True),
        (CPU, None),
        (CPU, {}),
        (CPU, "many"),
        (CPU, "-1"),
        (SLOTS, "4"),
        (SLOTS, 4.5),
        (SLOTS, 0),
        (SLOTS, 513),
        (SLOTS, None),
        ("/spec/guest/memorySlotSize", "1 slot"),
        ("/spec/guest/memorySlotSize", "1gi"),
        ("/spec/guest/cpus", {"min": 1, "max": 2}),
        ("/spec/guest", "none"),
        ("/spec/restartPolicy", "Sometimes"),
        ("/spec/schedulerName", 7),
    ],
)
def test_what_is_none_of_its_values_is_refused_field_by_field(kube: Subject, path: str, told: object) -> None:
    name = kube.name("a")
    before = kube.create(name)
    answer = kube.patch(name, ("add", path, told))
    status = answer.json()
    assert (answer.status_code, status["reason"], status["code"]) == (422, "Invalid", 422)
    field = path[1:].replace("/", ".")
    causes = [cause["field"] for cause in status["details"]["causes"]]
    assert [cause for cause in causes if cause.startswith(field)]
    assert status["message"].startswith(f'VirtualMachine.vm.neon.tech "{name}" is invalid: ')
    assert field in status["message"]
    assert (status["details"]["name"], status["details"]["kind"]) == (name, "VirtualMachine")
    assert kube.get(name) == before


def test_a_failed_test_and_a_refusal_by_schema_are_told_apart_by_their_causes_alone(kube: Subject) -> None:
    name = kube.name("a")
    kube.create(name)
    failed = kube.patch(name, ("test", CPU, 7)).json()
    refused = kube.patch(name, ("replace", SLOTS, 0)).json()
    assert (failed["code"], failed["reason"]) == (refused["code"], refused["reason"])
    assert failed["message"] == "the server rejected our request due to an error in our request"
    assert "causes" not in failed.get("details", {})


def test_a_refused_object_is_not_created(kube: Subject) -> None:
    item = vm_object(kube.name("a"))
    del item["spec"]["guest"]["cpus"]["use"]
    answer = kube.ask("POST", BASE, item)
    assert answer.status_code == 422
    assert "spec.guest.cpus.use: Required value" in answer.json()["message"]
    assert kube.ask("GET", f"{BASE}/{kube.name('a')}").status_code == 404


def test_a_field_that_the_schema_does_not_have_is_cut_off(kube: Subject) -> None:
    name = kube.name("a")
    before = kube.create(name)
    answer = kube.patch(name, ("add", "/spec/guest/nobodys", 1), ("add", "/status", {"own": 1}))
    assert answer.status_code == 200
    assert version(answer.json()) == version(before), "nothing is left of the change"
    status = kube.patch(name, ("add", "/status", {"phase": "Running", "own": 1}), sub="/status").json()
    assert status["status"] == {"phase": "Running"}


def test_defaults_are_put_in(kube: Subject) -> None:
    item = vm_object(kube.name("a"))
    del item["spec"]["guest"]["memorySlotSize"]
    made = kube.ask("POST", BASE, item).json()
    assert made["spec"]["guest"]["memorySlotSize"] == "1Gi"
    assert made["spec"]["cpuScalingMode"] == "QmpScaling"


@pytest.mark.parametrize("told", [0, "2", "1500m", 3])
def test_a_statuss_sizes_are_kept_as_they_are_spelt(kube: Subject, told: object) -> None:
    name = kube.name("a")
    kube.create(name)
    answer = kube.patch(name, ("add", "/status", {"cpus": told, "memorySize": "4Gi"}), sub="/status")
    assert answer.status_code == 200
    assert answer.json()["status"] == {"cpus": told, "memorySize": "4Gi"}


def test_the_generation_grows_with_the_spec_and_not_with_the_rest(kube: Subject) -> None:
    name = kube.name("a")
    assert kube.create(name)["metadata"]["generation"] == 1
    kube.patch(name, ("add", "/status", {"phase": "Running"}), sub="/status")
    assert kube.patch(name, ("add", "/metadata/labels/x", "y")).json()["metadata"]["generation"] == 1
    assert kube.patch(name, ("replace", CPU, 2)).json()["metadata"]["generation"] == 2


def test_what_the_server_says_of_an_object_no_client_changes(kube: Subject) -> None:
    name = kube.name("a")
    before = kube.create(name)["metadata"]
    made_at = ("replace", "/metadata/creationTimestamp", "2001-01-01T00:00:00Z")
    assert kube.patch(name, made_at, ("replace", CPU, 2)).status_code == 200
    after = kube.get(name)["metadata"]
    assert (after["uid"], after["creationTimestamp"]) == (before["uid"], before["creationTimestamp"])


def test_an_update_must_name_the_version_that_it_is_based_on(kube: Subject) -> None:
    name = kube.name("a")
    item = kube.create(name)
    del item["metadata"]["resourceVersion"]
    answer = kube.ask("PUT", f"{BASE}/{name}", item)
    assert answer.status_code == 422
    assert "metadata.resourceVersion" in answer.json()["message"]


def test_an_update_of_the_object_leaves_its_status_alone(kube: Subject) -> None:
    name = kube.name("a")
    kube.create(name)
    item = kube.patch(name, ("add", "/status", {"cpus": "2"}), sub="/status").json()
    item["status"], item["spec"]["guest"]["cpus"]["use"] = {"cpus": "4"}, 3
    made = kube.ask("PUT", f"{BASE}/{name}", item).json()
    assert (made["status"], made["spec"]["guest"]["cpus"]["use"]) == ({"cpus": "2"}, 3)


def test_an_update_of_another_of_that_name_is_a_conflict(kube: Subject) -> None:
    name = kube.name("a")
    item = kube.create(name)
    item["metadata"]["uid"] = "00000000-0000-0000-0000-000000000000"
    answer = kube.ask("PUT", f"{BASE}/{name}", item)
    assert (answer.status_code, answer.json()["reason"]) == (409, "Conflict")
    assert "Precondition failed: UID in precondition" in answer.json()["message"]


def test_a_deletion_can_name_the_one_that_it_means(kube: Subject) -> None:
    name = kube.name("a")
    uid = kube.create(name)["metadata"]["uid"]
    other = {"preconditions": {"uid": "00000000-0000-0000-0000-000000000000"}}
    answer = kube.ask("DELETE", f"{BASE}/{name}", other)
    assert (answer.status_code, answer.json()["reason"]) == (409, "Conflict")
    answer = kube.ask("DELETE", f"{BASE}/{name}", {"preconditions": {"uid": uid}})
    assert (answer.status_code, answer.json()["status"]) == (200, "Success")
