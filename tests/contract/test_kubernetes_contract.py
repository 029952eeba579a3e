"""What we rely on of an API server: the double, and a real one where KUBEBUILDER_ASSETS names a folder.

Each test is about the answers, not about our client, so that the double can't be wrong unnoticed.
"""

from __future__ import annotations

import json
import os
import tempfile
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.fakes.kube_server import KubeServer
from tests.fakes.neonvm_cluster import ENABLED, vm_object
from tests.real_apiserver import TOKEN, RealApiServer

ASSETS = os.environ.get("KUBEBUILDER_ASSETS", "")
BASE = "/apis/vm.neon.tech/v1/namespaces/sim/virtualmachines"
CPU = "/spec/guest/cpus/use"


@dataclass
class Subject:
    """One API server.

    Attributes:
        forget: let it forget its oldest versions.
        mark: label of this test's objects: a real server has those of others too.
    """

    url: str
    verify: str | bool
    forget: Callable[[], None]
    mark: str

    def ask(self, method: str, path: str, body: object = None, **query: str) -> requests.Response:
        kind = "application/json-patch+json" if method == "PATCH" else "application/json"
        return self.send(method, path, json.dumps(body) if body is not None else None, kind, **query)

    def send(self, method: str, path: str, body: str | None, kind: str, **query: str) -> requests.Response:
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": kind}
        return requests.request(
            method, self.url + path, data=body, params=query, headers=headers, verify=self.verify, timeout=60
        )

    def create(self, name: str, **labels: str) -> dict[str, Any]:
        item = vm_object(name)
        item["metadata"]["labels"] |= {"mark": self.mark, **labels}
        answer = self.ask("POST", BASE, item)
        assert answer.status_code == 201, answer.text
        return dict(answer.json())

    def name(self, name: str) -> str:
        """One that no other test has."""
        return f"{name}-{self.mark}"

    def get(self, name: str) -> dict[str, Any]:
        answer = self.ask("GET", f"{BASE}/{name}")
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def patch(self, name: str, *operations: tuple[str, str, object], sub: str = "") -> requests.Response:
        body = [{"op": op, "path": path, "value": value} for op, path, value in operations]
        return self.ask("PATCH", f"{BASE}/{name}{sub}", body, fieldManager="vmscaler")

    def page(self, **query: str) -> dict[str, Any]:
        answer = self.ask("GET", BASE, labelSelector=f"mark={self.mark}", **query)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def watch(self, version: str, seconds: int = 2, **query: str) -> list[tuple[str, dict[str, Any]]]:
        """All that a watch tells until the server ends it."""
        query = {"labelSelector": f"mark={self.mark}", **query}
        answer = self.ask(
            "GET", BASE, watch="1", resourceVersion=version, timeoutSeconds=str(seconds), **query
        )
        if answer.status_code != 200:
            return [("ERROR", answer.json())]
        events = [json.loads(line) for line in answer.text.splitlines()]
        return [(event["type"], event["object"]) for event in events]


def version(item: dict[str, Any]) -> int:
    return int(item["metadata"]["resourceVersion"])


@pytest.fixture(scope="module")
def real() -> Iterator[RealApiServer]:
    with tempfile.TemporaryDirectory(prefix="vmscaler-") as directory:
        server = RealApiServer(Path(ASSETS), Path(directory))
        try:
            yield server
        finally:
            server.close()


@pytest.fixture(
    params=[
        "double",
        pytest.param("real", marks=pytest.mark.skipif(not ASSETS, reason="KUBEBUILDER_ASSETS is not set")),
    ]
)
def subject(request: pytest.FixtureRequest) -> Iterator[Subject]:
    mark = uuid.uuid4().hex[:8]
    if request.param == "real":
        real = request.getfixturevalue("real")
        yield Subject(real.url, real.authority, lambda: None, mark)
        return
    server = KubeServer()

    def forget() -> None:
        server.store.bump()
        server.store.compact()

    yield Subject(server.url, True, forget, mark)
    server.close()


def test_a_list_comes_in_pages_that_are_of_one_version(subject: Subject) -> None:
    names = [subject.name(each) for each in "abcde"]
    for name in names:
        subject.create(name)
    first = subject.page(limit="2")
    assert len(first["items"]) == 2
    late = subject.create(subject.name("late"))
    found, page = list(first["items"]), first
    while token := page["metadata"].get("continue"):
        page = subject.page(**{"limit": "2", "continue": token})
        assert version(page) == version(first)
        found += page["items"]
    assert [item["metadata"]["name"] for item in found] == names
    assert version(first) < version(late)


def test_a_token_that_is_none_of_its_own_is_a_bad_request(subject: Subject) -> None:
    answer = subject.ask("GET", BASE, **{"continue": "no token", "limit": "2"})
    assert answer.status_code == 400


def test_a_watch_tells_all_that_came_after_a_list_in_order(subject: Subject) -> None:
    name = subject.name("a")
    subject.create(subject.name("before"))
    begun = str(version(subject.page()))
    subject.create(name)
    subject.patch(name, ("replace", CPU, 2))
    last = version(subject.get(name))
    subject.ask("DELETE", f"{BASE}/{name}")
    events = subject.watch(begun)
    assert [kind for kind, _ in events] == ["ADDED", "MODIFIED", "DELETED"]
    versions = [version(item) for _, item in events]
    assert versions == sorted(set(versions))
    assert versions[-1] > last, "a deleted object has the version of its deletion"


def test_an_object_that_stops_matching_is_a_deleted_one_and_back_an_added_one(subject: Subject) -> None:
    name = subject.name("a")
    subject.create(name)
    begun = str(version(subject.page()))
    path = "/metadata/labels/" + ENABLED.replace("/", "~1")
    assert subject.patch(name, ("replace", path, "false")).status_code == 200
    assert subject.patch(name, ("replace", path, "true")).status_code == 200
    events = subject.watch(begun, labelSelector=f"mark={subject.mark},{ENABLED}=true")
    assert [kind for kind, _ in events] == ["DELETED", "ADDED"]


def test_a_quiet_watch_is_sent_bookmarks_that_it_can_go_on_from(subject: Subject) -> None:
    subject.create(subject.name("a"))
    begun = version(subject.page())
    events = subject.watch(str(begun), seconds=4, allowWatchBookmarks="true")
    assert events
    assert {kind for kind, _ in events} == {"BOOKMARK"}
    assert all(version(item) >= begun and "spec" not in item for _, item in events)
    assert [kind for kind, _ in subject.watch(str(version(events[-1][1])), seconds=1)] == []


def test_a_version_that_was_forgotten_is_gone(subject: Subject) -> None:
    subject.create(subject.name("a"))
    subject.forget()
    kind, item = subject.watch("1")[0]
    assert (kind, item["code"], item["reason"]) == ("ERROR", 410, "Expired")


@pytest.mark.parametrize("told", ["1", 1.5, True, None, 2])
def test_a_test_of_another_value_refuses_the_whole_patch(subject: Subject, told: object) -> None:
    name = subject.name("a")
    before = subject.create(name)
    answer = subject.patch(name, ("replace", "/spec/guest/memorySlots/use", 5), ("test", CPU, told))
    assert (answer.status_code, answer.json()["reason"]) == (422, "Invalid")
    assert subject.get(name) == before


def test_a_test_of_the_value_as_it_is_spelt_lets_the_patch_pass(subject: Subject) -> None:
    name = subject.name("a")
    before = subject.create(name)
    answer = subject.patch(name, ("test", CPU, 1), ("replace", CPU, "1250m"))
    assert answer.status_code == 200
    assert answer.json()["spec"]["guest"]["cpus"]["use"] == "1250m"
    assert version(answer.json()) > version(before)
    assert answer.json() == subject.get(name)
    assert subject.patch(name, ("test", CPU, "1250m"), ("replace", CPU, 1)).status_code == 200


def test_a_patch_that_changes_nothing_makes_no_version(subject: Subject) -> None:
    name = subject.name("a")
    before = subject.create(name)
    assert version(subject.patch(name, ("replace", CPU, 1)).json()) == version(before)


@pytest.mark.parametrize("path", ["/spec/guest/nowhere", "/spec/nowhere/at/all"])
def test_a_replacement_of_what_is_not_there_is_refused(subject: Subject, path: str) -> None:
    name = subject.name("a")
    subject.create(name)
    assert subject.patch(name, ("replace", path, 1)).status_code == 422


def test_patches_that_are_none(subject: Subject) -> None:
    name = subject.name("a")
    subject.create(name)
    assert subject.ask("PATCH", f"{BASE}/{name}", {"op": "test"}).status_code == 400
    assert subject.send("PATCH", f"{BASE}/{name}", "[]", "text/plain").status_code == 415
    assert subject.patch(subject.name("nobody"), ("replace", CPU, 1)).status_code == 404


def test_the_status_is_changed_by_its_subresource_and_by_nothing_else(subject: Subject) -> None:
    name = subject.name("a")
    assert "status" not in subject.create(name)
    both = [("add", "/status", {"cpus": "3"}), ("replace", CPU, 3)]
    subject.patch(name, ("replace", CPU, 2))
    assert subject.patch(name, ("add", "/status", {"cpus": "2"}), sub="/status").status_code == 200
    assert subject.patch(name, *both).status_code == 200
    found = subject.get(name)
    assert (found["status"]["cpus"], found["spec"]["guest"]["cpus"]["use"]) == ("2", 3)
    assert subject.patch(name, ("add", "/status/cpus", "4"), ("replace", CPU, 1), sub="/status").ok
    found = subject.get(name)
    assert (found["status"]["cpus"], found["spec"]["guest"]["cpus"]["use"]) == ("4", 3)


def test_an_update_on_an_old_version_is_a_conflict(subject: Subject) -> None:
    name = subject.name("a")
    old = subject.create(name)
    subject.patch(name, ("replace", CPU, 2))
    answer = subject.ask("PUT", f"{BASE}/{name}", old)
    assert (answer.status_code, answer.json()["reason"]) == (409, "Conflict")


def test_a_name_is_had_once_and_then_by_another_object(subject: Subject) -> None:
    name = subject.name("a")
    first = subject.create(name)
    answer = subject.ask("POST", BASE, vm_object(name))
    assert (answer.status_code, answer.json()["reason"]) == (409, "AlreadyExists")
    assert subject.ask("DELETE", f"{BASE}/{name}").status_code == 200
    answer = subject.ask("GET", f"{BASE}/{name}")
    assert (answer.status_code, answer.json()["reason"]) == (404, "NotFound")
    assert subject.create(name)["metadata"]["uid"] != first["metadata"]["uid"]
    stale = subject.patch(name, ("test", "/metadata/uid", first["metadata"]["uid"]), ("replace", CPU, 2))
    assert stale.status_code == 422


def test_who_changed_the_size_is_kept_account_of(subject: Subject) -> None:
    from app.protocols.managed_fields import use_writer

    name = subject.name("a")
    assert use_writer(subject.create(name)) not in (None, "vmscaler")
    subject.patch(name, ("replace", CPU, 2))
    assert use_writer(subject.get(name)) == "vmscaler"


def test_an_event_on_an_object_is_taken_once(subject: Subject) -> None:
    vm = subject.create(subject.name("a"))
    about = {"kind": "VirtualMachine", "namespace": "sim", "name": vm["metadata"]["name"]}
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"namespace": "sim", "name": subject.name("event")},
        "involvedObject": {"apiVersion": "vm.neon.tech/v1", "uid": vm["metadata"]["uid"], **about},
        "type": "Warning",
        "reason": "Unreadable",
        "message": "not scaled",
    }
    codes = [subject.ask("POST", "/api/v1/namespaces/sim/events", event).status_code for _ in range(2)]
    assert codes == [201, 409]
