"""The API server's own kinds that we read or write: leases, services, endpoint slices, pods and events."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kube_subject import Subject, version

LEASES = "/apis/coordination.k8s.io/v1/namespaces/sim/leases"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/sim/endpointslices"
SERVICES = "/api/v1/namespaces/sim/services"
PODS = "/api/v1/namespaces/sim/pods"


def lease(name: str, holder: str = "worker-a_10.0.0.1") -> dict[str, Any]:
    spec = {
        "holderIdentity": holder,
        "leaseDurationSeconds": 15,
        "acquireTime": "2026-01-01T00:00:00.000000Z",
        "renewTime": "2026-01-01T00:00:00.123456Z",
        "leaseTransitions": 1,
    }
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}, "spec": spec}


def test_of_two_renewals_of_one_version_only_the_first_is_taken(kube: Subject) -> None:
    name = kube.name("bucket")
    made = kube.ask("POST", LEASES, lease(name))
    assert made.status_code == 201
    assert made.json()["spec"] == lease(name)["spec"]
    ours, others = made.json(), made.json()
    ours["spec"]["renewTime"] = "2026-01-01T00:00:05.000000Z"
    others["spec"] |= {"holderIdentity": "worker-b_10.0.0.2", "leaseTransitions": 2}
    first = kube.ask("PUT", f"{LEASES}/{name}", ours)
    assert first.status_code == 200
    assert version(first.json()) > version(made.json())
    second = kube.ask("PUT", f"{LEASES}/{name}", others)
    assert (second.status_code, second.json()["reason"]) == (409, "Conflict")
    assert 'leases.coordination.k8s.io "' in second.json()["message"]
    assert kube.ask("GET", f"{LEASES}/{name}").json()["spec"] == ours["spec"]


def test_a_lease_is_made_once(kube: Subject) -> None:
    name = kube.name("bucket")
    codes = [kube.ask("POST", LEASES, lease(name)).status_code for _ in range(2)]
    assert codes == [201, 409]


def test_an_update_of_a_lease_must_name_its_version_and_makes_one_that_is_not_there(kube: Subject) -> None:
    name = kube.name("bucket")
    made = kube.ask("PUT", f"{LEASES}/{name}", lease(name))
    assert made.status_code == 201
    blind = kube.ask("PUT", f"{LEASES}/{name}", lease(name))
    assert blind.status_code == 422
    assert "metadata.resourceVersion" in blind.json()["message"]


def test_an_update_of_a_lease_that_is_gone_is_refused_if_it_names_its_uid(kube: Subject) -> None:
    name = kube.name("bucket")
    made = kube.ask("POST", LEASES, lease(name)).json()
    assert kube.ask("DELETE", f"{LEASES}/{name}").status_code == 200
    answer = kube.ask("PUT", f"{LEASES}/{name}", made)
    assert (answer.status_code, answer.json()["reason"]) == (409, "Conflict")
    assert "Precondition failed: UID in precondition" in answer.json()["message"]
    assert kube.ask("GET", f"{LEASES}/{name}").status_code == 404
    kube.ask("POST", LEASES, lease(name))
    answer = kube.ask("PUT", f"{LEASES}/{name}", made)
    assert (answer.status_code, answer.json()["reason"]) == (409, "Conflict")


def test_an_update_of_a_lease_that_is_gone_makes_one_if_it_names_a_version_alone(kube: Subject) -> None:
    name = kube.name("bucket")
    made = kube.ask("POST", LEASES, lease(name)).json()
    assert kube.ask("DELETE", f"{LEASES}/{name}").status_code == 200
    del made["metadata"]["uid"]
    assert kube.ask("PUT", f"{LEASES}/{name}", made).status_code == 201


def test_a_lease_is_not_made_with_a_version(kube: Subject) -> None:
    item = lease(kube.name("bucket"))
    item["metadata"]["resourceVersion"] = "7"
    answer = kube.ask("POST", LEASES, item)
    assert "resourceVersion should not be set on objects to be created" in answer.json()["message"]
    assert (answer.status_code, answer.json().get("reason")) == (500, None)


@pytest.mark.parametrize(
    ("field", "told", "code"),
    [
        ("renewTime", "2026-01-01T00:00:00Z", 400),
        ("renewTime", "2026-01-01T00:00:00.000Z", 400),
        ("acquireTime", "yesterday", 400),
        ("acquireTime", None, 201),
        ("leaseDurationSeconds", 0, 422),
        ("leaseDurationSeconds", -1, 422),
        ("leaseTransitions", -1, 422),
        ("leaseTransitions", 0, 201),
        ("leaseTransitions", 2**31 - 1, 201),
    ],
)
def test_a_leases_fields_are_checked(kube: Subject, field: str, told: object, code: int) -> None:
    item = lease(kube.name("bucket"))
    item["spec"][field] = told
    answer = kube.ask("POST", LEASES, item)
    assert answer.status_code == code, answer.text
    if code == 422:
        assert [cause["field"] for cause in answer.json()["details"]["causes"]] == [f"spec.{field}"]


def test_a_lease_is_given_up_by_a_holder_of_no_name(kube: Subject) -> None:
    name = kube.name("bucket")
    item = kube.ask("POST", LEASES, lease(name)).json()
    item["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1}
    given = kube.ask("PUT", f"{LEASES}/{name}", item)
    assert given.status_code == 200
    assert given.json()["spec"].get("holderIdentity", "") == ""


def test_leases_are_listed_and_watched_by_label(kube: Subject) -> None:
    query = {"labelSelector": f"mark={kube.mark}"}
    begun = str(version(kube.ask("GET", LEASES, **query).json()))
    item = lease(kube.name("bucket"))
    item["metadata"]["labels"] = {"mark": kube.mark}
    assert kube.ask("POST", LEASES, item).status_code == 201
    page = kube.ask("GET", LEASES, **query).json()
    assert [each["metadata"]["name"] for each in page["items"]] == [kube.name("bucket")]
    assert "kind" not in page["items"][0], "objects of the server's own kinds don't say it in a list"
    told = kube.ask("GET", LEASES, watch="1", resourceVersion=begun, timeoutSeconds="1", **query)
    assert told.json()["type"] == "ADDED"
    assert told.json()["object"]["kind"] == "Lease"


def test_a_deleted_object_of_the_servers_own_kinds_is_answered(kube: Subject) -> None:
    name = kube.name("bucket")
    kube.ask("POST", LEASES, lease(name))
    assert kube.ask("DELETE", f"{LEASES}/{name}").status_code == 200
    assert kube.ask("DELETE", f"{LEASES}/{name}").status_code == 404


def endpoint_slice(name: str, address: str) -> dict[str, Any]:
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": name, "labels": {"kubernetes.io/service-name": name}},
        "addressType": "IPv4",
        "ports": [{"name": "state", "port": 10300, "protocol": "TCP"}],
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
    }


def test_an_endpoint_slice_follows_its_holder_by_version(kube: Subject) -> None:
    name = kube.name("bucket")
    made = kube.ask("POST", SLICES, endpoint_slice(name, "10.0.0.1"))
    assert made.status_code == 201
    item = made.json()
    item["endpoints"][0]["addresses"] = ["10.0.0.2"]
    moved = kube.ask("PUT", f"{SLICES}/{name}", item)
    assert moved.status_code == 200
    assert kube.ask("PUT", f"{SLICES}/{name}", item).status_code == 409
    found = kube.ask("GET", f"{SLICES}/{name}").json()
    assert found["endpoints"] == [{"addresses": ["10.0.0.2"], "conditions": {"ready": True}}]


def test_a_service_without_a_selector_is_made_once_and_updated(kube: Subject) -> None:
    name = kube.name("bucket")
    ports = [{"name": "state", "port": 10300, "protocol": "TCP"}]
    item = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"ports": ports, "clusterIP": "None"},
    }
    made = kube.ask("POST", SERVICES, item)
    assert made.status_code == 201
    assert kube.ask("POST", SERVICES, item).status_code == 409
    again = made.json()
    again["metadata"]["labels"] = {"x": "y"}
    assert kube.ask("PUT", f"{SERVICES}/{name}", again).status_code == 200
    assert kube.ask("PUT", f"{SERVICES}/{name}", again).status_code == 409


def pod(name: str, mark: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"mark": mark}},
        "spec": {"containers": [{"name": "c", "image": "none"}]},
        "status": {"podIP": "10.0.0.9"},
    }


def test_a_pods_address_is_given_by_its_status_alone(kube: Subject) -> None:
    name = kube.name("scheduler")
    made = kube.ask("POST", PODS, pod(name, kube.mark))
    assert made.status_code == 201
    assert "podIP" not in made.json().get("status", {})
    ready = [{"type": "Ready", "status": "True"}]
    status = [
        {"op": "add", "path": "/status/podIP", "value": "10.0.0.9"},
        {"op": "add", "path": "/status/conditions", "value": ready},
    ]
    given = kube.ask("PATCH", f"{PODS}/{name}/status", status)
    assert given.status_code == 200
    page = kube.ask("GET", PODS, labelSelector=f"mark={kube.mark}").json()
    (found,) = page["items"]
    assert found["status"]["podIP"] == "10.0.0.9"
    assert [each["status"] for each in found["status"]["conditions"] if each["type"] == "Ready"] == ["True"]
    kube.ask("DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": 0})
    assert kube.ask("GET", f"{PODS}/{name}").status_code == 404


def test_what_is_not_there_is_named(kube: Subject) -> None:
    answer = kube.ask("GET", f"{LEASES}/{kube.name('none')}")
    status = answer.json()
    assert (status["kind"], status["status"], status["code"]) == ("Status", "Failure", 404)
    assert status["message"] == f'leases.coordination.k8s.io "{kube.name("none")}" not found'
    about = {"name": kube.name("none"), "group": "coordination.k8s.io", "kind": "leases"}
    assert status["details"] == about
