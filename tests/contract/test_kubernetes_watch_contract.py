"""Lists and watches of an API server: pages, versions, bookmarks, cuts and what was forgotten."""

from __future__ import annotations

from queue import Queue

import pytest

from app.adapters.kubernetes_api import ApiServer
from app.adapters.kubernetes_watch import Kind, ObjectWatch, WatchEvent
from tests.fakes.neonvm_cluster import ENABLED
from tests.fleet_process import until
from tests.kube_subject import BASE, CPU, Subject, version
from tests.tcp_proxy import ProxyLoop, TcpProxy


def test_a_list_comes_in_pages_that_are_of_one_version(kube: Subject) -> None:
    names = [kube.name(each) for each in "abcde"]
    for name in names:
        kube.create(name)
    first = kube.page(limit="2")
    assert len(first["items"]) == 2
    late = kube.create(kube.name("late"))
    found, page = list(first["items"]), first
    while token := page["metadata"].get("continue"):
        page = kube.page(**{"limit": "2", "continue": token})
        assert version(page) == version(first)
        found += page["items"]
    assert [item["metadata"]["name"] for item in found] == names
    assert version(first) < version(late)


def test_a_token_that_is_none_of_its_own_is_a_bad_request(kube: Subject) -> None:
    answer = kube.ask("GET", BASE, **{"continue": "no token", "limit": "2"})
    assert answer.status_code == 400


def test_a_watch_tells_all_that_came_after_a_list_in_order(kube: Subject) -> None:
    name = kube.name("a")
    kube.create(kube.name("before"))
    begun = str(version(kube.page()))
    kube.create(name)
    kube.patch(name, ("replace", CPU, 2))
    last = version(kube.get(name))
    kube.ask("DELETE", f"{BASE}/{name}")
    events = kube.watch(begun)
    assert [kind for kind, _ in events] == ["ADDED", "MODIFIED", "DELETED"]
    versions = [version(item) for _, item in events]
    assert versions == sorted(set(versions))
    assert versions[-1] > last, "a deleted object has the version of its deletion"


def test_an_object_that_stops_matching_is_a_deleted_one_and_back_an_added_one(kube: Subject) -> None:
    name = kube.name("a")
    kube.create(name)
    begun = str(version(kube.page()))
    path = "/metadata/labels/" + ENABLED.replace("/", "~1")
    assert kube.patch(name, ("replace", path, "false")).status_code == 200
    assert kube.patch(name, ("replace", path, "true")).status_code == 200
    events = kube.watch(begun, labelSelector=f"mark={kube.mark},{ENABLED}=true")
    assert [kind for kind, _ in events] == ["DELETED", "ADDED"]


def test_a_quiet_watch_is_sent_bookmarks_that_it_can_go_on_from(kube: Subject) -> None:
    kube.create(kube.name("a"))
    begun = version(kube.page())
    with kube.while_others_change():
        events = kube.watch(str(begun), seconds=6, allowWatchBookmarks="true")
    assert events
    assert {kind for kind, _ in events} == {"BOOKMARK"}
    versions = [version(item) for _, item in events]
    assert begun < versions[0]
    assert versions == sorted(set(versions)), "each tells something new"
    for _, item in events:
        assert (item["kind"], item["apiVersion"]) == ("VirtualMachine", "vm.neon.tech/v1")
        assert not item["metadata"].get("name")
    assert kube.watch(str(versions[-1]), seconds=1) == [], "nothing is told twice"


def test_a_bookmark_comes_before_a_watchs_end_but_to_those_alone_that_ask_for_it(kube: Subject) -> None:
    kube.create(kube.name("a"))
    begun = str(version(kube.page()))
    with kube.while_others_change():
        assert kube.watch(begun, seconds=4) == []
        assert kube.watch(begun, seconds=4, allowWatchBookmarks="true")[-1][0] == "BOOKMARK"


def test_where_nothing_changes_there_is_no_bookmark_that_goes_back(kube: Subject) -> None:
    kube.create(kube.name("a"))
    begun = version(kube.page())
    events = kube.watch(str(begun), seconds=4, allowWatchBookmarks="true")
    assert all(kind == "BOOKMARK" and version(item) > begun for kind, item in events)


def test_a_version_that_was_forgotten_is_gone(kube: Subject) -> None:
    kube.create(kube.name("a"))
    kube.forget()
    kind, item = kube.watch("1")[0]
    assert (kind, item["code"], item["reason"]) == ("ERROR", 410, "Expired")


def test_a_list_says_its_kind_and_its_objects_say_theirs(kube: Subject) -> None:
    kube.create(kube.name("a"))
    page = kube.page()
    assert (page["apiVersion"], page["kind"]) == ("vm.neon.tech/v1", "VirtualMachineList")
    kinds = {(item["apiVersion"], item["kind"]) for item in page["items"]}
    assert kinds == {("vm.neon.tech/v1", "VirtualMachine")}


def test_a_large_collection_comes_in_pages_of_one_version_and_no_object_twice(kube: Subject) -> None:
    kube.fill(kube.many)
    names, versions, query = list[str](), set[int](), {"limit": "500"}
    while True:
        page = kube.page(**query)
        names += [item["metadata"]["name"] for item in page["items"]]
        versions.add(version(page))
        assert len(page["items"]) <= 500
        if len(names) == 500:
            kube.create(kube.name("vm-late"))
        if not (token := page["metadata"].get("continue")):
            break
        query["continue"] = token
    assert len(names) == len(set(names)) == kube.many
    assert names == sorted(names)
    assert len(versions) == 1
    late = kube.watch_some(str(versions.pop()), 1)
    assert [(kind, item["metadata"]["name"]) for kind, item in late] == [("ADDED", kube.name("vm-late"))]


def test_a_page_whose_version_was_forgotten_is_gone(kube: Subject) -> None:
    for each in "abc":
        kube.create(kube.name(each))
    token = kube.page(limit="1")["metadata"]["continue"]
    kube.forget()
    query = {"limit": "1", "continue": token, "labelSelector": f"mark={kube.mark}"}
    answer = kube.ask("GET", BASE, **query)
    assert (answer.status_code, answer.json()["reason"]) == (410, "Expired")


def test_a_watch_that_was_broken_off_goes_on_where_it_was(kube: Subject) -> None:
    begun, told, name = str(version(kube.page())), list[int](), kube.name("a")
    made = [version(kube.create(name))]
    made += [version(kube.patch(name, ("replace", CPU, 1 + step % 2)).json()) for step in range(1, 12)]
    while len(told) < len(made):
        some = kube.watch_some(begun, min(5, len(made) - len(told)))
        told += [version(item) for _, item in some]
        begun = str(told[-1])
    assert told == made


def test_a_watch_of_the_future_is_not_answered_with_the_past(kube: Subject) -> None:
    kube.create(kube.name("a"))
    ahead = str(version(kube.page()) + 1_000_000)
    answer = kube.ask("GET", BASE, watch="1", resourceVersion=ahead, timeoutSeconds="1")
    assert "ADDED" not in answer.text


def test_our_watch_cut_again_and_again_tells_each_change_once_and_in_order(
    kube: Subject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    loop = ProxyLoop()
    proxy = TcpProxy(loop, ("127.0.0.1", int(kube.url.rpartition(":")[2])))
    scheme = kube.url.partition(":")[0]
    path = str(tmp_path_factory.mktemp("kube") / "kubeconfig")
    api = ApiServer(kube.kubeconfig(path, server=f"{scheme}://127.0.0.1:{proxy.port}"))
    events: Queue[WatchEvent] = Queue()
    watch = ObjectWatch(api, BASE, {"labelSelector": f"mark={kube.mark}"}, events)
    try:
        assert watch.read_all() == []
        watch.follow()
        made = []
        for index in range(30):
            name = kube.name(f"vm-{index:02}")
            made += [version(kube.create(name)), version(kube.patch(name, ("replace", CPU, 2)).json())]
            if index % 3 == 0:
                proxy.reset()
        until(lambda: events.qsize() >= len(made), "all is told")
        told = [events.get() for _ in range(events.qsize())]
        assert [version(event.item) for event in told] == made
        assert {event.kind for event in told} == {Kind.ADDED, Kind.MODIFIED}
    finally:
        watch.close()
        api.close()
        proxy.close()
        loop.close()


def test_our_watch_of_a_version_that_was_forgotten_asks_for_a_new_list(
    kube: Subject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    kube.create(kube.name("a"))
    events: Queue[WatchEvent] = Queue()
    api = ApiServer(kube.kubeconfig(str(tmp_path_factory.mktemp("kube") / "kubeconfig")))
    watch = ObjectWatch(api, BASE, {}, events)
    try:
        watch.read_all()
        kube.forget()
        watch.follow()
        assert events.get(timeout=60).kind is Kind.EXPIRED
        assert kube.name("a") in {item["metadata"]["name"] for item in watch.read_all()}
    finally:
        watch.close()
        api.close()
