"""The informant's REST endpoints over real sockets, with agents whose answers a test decides."""

from __future__ import annotations

import ipaddress
import json
import socket
import threading
import time
from collections.abc import Iterator

import pytest
import requests

from app.guest.access import Access
from app.guest.hooks import Hook
from app.protocols.access import AllowedAddresses
from app.protocols.informant import AgentDesc, encode_agent_desc
from app.protocols.informant_set import SetSettings
from tests.fakes.guest_on_loop import PATIENT, GuestOnLoop, RawAgent, response
from tests.fakes.raw_peer import RawPeer, read_head
from tests.fleet_process import until

A = "aaaaaaaa-0000-4000-8000-000000000000"
B = "bbbbbbbb-0000-4000-8000-000000000000"


@pytest.fixture
def guest() -> Iterator[GuestOnLoop]:
    one = GuestOnLoop()
    yield one
    one.close()


def call(guest: GuestOnLoop, method: str, path: str, body: bytes | dict[str, object]) -> requests.Response:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return requests.request(method, guest.url + path, data=data, timeout=60)


def register(guest: GuestOnLoop, desc: AgentDesc) -> requests.Response:
    return call(guest, "POST", "/register", encode_agent_desc(desc))


def unregister(guest: GuestOnLoop, desc: AgentDesc) -> requests.Response:
    return call(guest, "DELETE", "/unregister", encode_agent_desc(desc))


def test_an_agent_registers_is_resumed_and_unregisters(guest: GuestOnLoop) -> None:
    agent = RawAgent(A)
    with RawPeer(agent) as peer:
        answer = register(guest, agent.desc(peer.port))
        assert answer.status_code == 200
        assert answer.headers["Content-Type"] == "application/json"
        assert answer.json() == {"protoVersion": 1, "metricsMethod": {"prometheus": {"port": 9100}}}
        until(lambda: agent.seen == ["/id", "/resume"], "resumed")
        assert json.loads(agent.bodies[1]) == {"expectedID": A}
        assert register(guest, agent.desc(peer.port)).status_code == 409
        gone = unregister(guest, agent.desc(peer.port))
        assert (gone.status_code, gone.json()) == (200, {"wasActive": True})
        assert unregister(guest, agent.desc(peer.port)).status_code == 404
        assert len(peer.connections) == 1


def test_a_newer_agent_takes_over_and_gives_back(guest: GuestOnLoop) -> None:
    first, second = RawAgent(A), RawAgent(B)
    with RawPeer(first) as one, RawPeer(second) as two:
        register(guest, first.desc(one.port))
        until(lambda: first.seen == ["/id", "/resume"], "the first is resumed")
        register(guest, second.desc(two.port))
        until(lambda: second.seen == ["/id", "/resume"], "the second is resumed")
        until(lambda: first.seen[2:] == ["/suspend"], "the first is suspended")
        assert json.loads(first.bodies[2]) == {"expectedID": A}
        assert unregister(guest, second.desc(two.port)).json() == {"wasActive": True}
        until(lambda: first.seen[3:] == ["/resume"], "the first is resumed again")


def test_registering_waits_neither_for_the_resume_nor_for_the_suspend(guest: GuestOnLoop) -> None:
    first, second, third = RawAgent(A), RawAgent(B), RawAgent(A.replace("a", "c"))
    resume, suspend = first.hold("/resume"), first.hold("/suspend")
    with RawPeer(first) as one, RawPeer(second) as two, RawPeer(third) as three:
        assert register(guest, first.desc(one.port)).status_code == 200
        assert register(guest, second.desc(two.port)).status_code == 200
        assert second.seen == ["/id"], "the change-over before has not ended"
        resume.set()
        until(lambda: second.seen == ["/id", "/resume"], "the second is resumed")
        assert register(guest, third.desc(three.port)).status_code == 200
        until(lambda: "/suspend" in first.seen, "the first is suspended")
        assert third.seen == ["/id"], "no other is resumed before the suspend has ended"
        suspend.set()
        until(lambda: third.seen == ["/id", "/resume"], "the third is resumed")


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"nonsense", 400),
        (b"[]", 400),
        (b'{"agentID": 5}', 400),
        (b'{"agentID": "x"}', 400),
        (b'{"minProtoVersion": "1"}', 400),
        (b"x" * 65_537, 413),
    ],
)
def test_a_body_that_can_not_be_read_is_refused(guest: GuestOnLoop, body: bytes, status: int) -> None:
    for method, path in (("POST", "/register"), ("DELETE", "/unregister")):
        answer = call(guest, method, path, body)
        assert answer.status_code == status
        assert answer.headers["Content-Type"].startswith("text/plain")
        assert status != 400 or answer.text.strip() == "bad JSON"


@pytest.mark.parametrize("body", [b"", b"7", b'{"cpu": []}', b'{"cpu": "one"}', b'{"memory": "1Xi"}'])
def test_a_size_that_can_not_be_read_is_bad_json(guest: GuestOnLoop, body: bytes) -> None:
    for path in ("/downscale", "/upscale"):
        answer = call(guest, "PUT", path, body)
        assert (answer.status_code, answer.text.strip()) == (400, "bad JSON")


@pytest.mark.parametrize(
    ("path", "right"),
    [("/register", "POST"), ("/unregister", "DELETE"), ("/downscale", "PUT"), ("/upscale", "PUT")],
)
def test_a_wrong_method_gets_405(guest: GuestOnLoop, path: str, right: str) -> None:
    for method in {"GET", "POST", "PUT", "DELETE", "PATCH"} - {right}:
        answer = call(guest, method, path, b"{}")
        assert (answer.status_code, answer.headers["Allow"]) == (405, right)


def test_an_unknown_path_gets_404(guest: GuestOnLoop) -> None:
    assert call(guest, "POST", "/registers", b"{}").status_code == 404


@pytest.mark.parametrize(("low", "high"), [(0, 0), (2, 5), (2, 1)])
def test_no_shared_version_is_400_before_anything_else(guest: GuestOnLoop, low: int, high: int) -> None:
    agent = RawAgent(A)
    with RawPeer(agent) as peer:
        register(guest, agent.desc(peer.port))
        assert register(guest, AgentDesc(A, "nonsense", low, high)).status_code == 400
        assert agent.seen[0] == "/id"


def test_an_agent_with_another_id_is_400_and_its_answer_is_not_repeated(guest: GuestOnLoop) -> None:
    other = RawAgent(B)
    with RawPeer(other) as peer:
        answer = register(guest, AgentDesc(A, f"127.0.0.1:{peer.port}", 1, 1))
    assert answer.status_code == 400
    assert B not in answer.text
    assert guest.agents.get(A) is None


@pytest.mark.parametrize(
    "data",
    [
        response(b"top secret", "500 Oops"),
        response(b"top secret"),
        response(b"", "302 Found", b"Location: http://127.0.0.1:1/top-secret\r\n"),
        response(b'{"data": {"agentID": "%s"}, "sequenceNumber": 0, "x": "top secret"}' % A.encode()),
        b"top secret\r\n\r\n",
        b"",
    ],
)
def test_a_failed_check_says_nothing_of_what_the_address_answered(guest: GuestOnLoop, data: bytes) -> None:
    def handle(connection: socket.socket, _: int) -> None:
        read_head(connection)
        connection.sendall(data)

    with RawPeer(handle) as peer:
        answer = register(guest, AgentDesc(A, f"127.0.0.1:{peer.port}", 1, 1))
    assert (answer.status_code, answer.text) == (400, "the check of the agent's id failed\n")


@pytest.mark.parametrize(
    "address", ["", "host", "http://127.0.0.1:1", "127.0.0.1:1/x", "a@127.0.0.1:1", "127.0.0.1:0", "::1:1"]
)
def test_an_address_that_is_more_than_host_and_port_is_refused(guest: GuestOnLoop, address: str) -> None:
    assert register(guest, AgentDesc(A, address, 1, 1)).status_code == 400


@pytest.mark.parametrize(
    "address", ["10.0.0.1:80", "[::1]:80", "example.org:80", "127.1:80", "2130706433:80"]
)
def test_an_address_that_is_not_the_callers_own_gets_403(guest: GuestOnLoop, address: str) -> None:
    assert register(guest, AgentDesc(A, address, 1, 1)).status_code == 403


def test_another_address_may_be_allowed() -> None:
    allowed = AllowedAddresses((ipaddress.ip_network("127.0.0.2/32"),))
    guest = GuestOnLoop(agent_addresses=allowed)
    try:
        outside = register(guest, AgentDesc(A, "127.0.0.3:1", 1, 1))
        inside = register(guest, AgentDesc(A, "127.0.0.2:1", 1, 1))
    finally:
        guest.close()
    assert (outside.status_code, inside.status_code) == (403, 400)


def test_the_same_id_twice_at_once_is_taken_once(guest: GuestOnLoop) -> None:
    agent = RawAgent(A)
    held = agent.hold("/id")
    statuses: list[int] = []
    with RawPeer(agent) as peer:

        def one() -> None:
            statuses.append(register(guest, agent.desc(peer.port)).status_code)

        threads = [threading.Thread(target=one) for _ in range(8)]
        for thread in threads:
            thread.start()
        until(lambda: len(statuses) == 7, "seven are refused while the check runs")
        held.set()
        for thread in threads:
            thread.join(60)
    assert sorted(statuses) == [200] + [409] * 7


def test_unregistering_during_the_check_answers_the_registration_400(guest: GuestOnLoop) -> None:
    agent = RawAgent(A)
    held = agent.hold("/id")
    statuses: list[int] = []
    with RawPeer(agent) as peer:
        thread = threading.Thread(
            target=lambda: statuses.append(register(guest, agent.desc(peer.port)).status_code)
        )
        thread.start()
        until(lambda: agent.seen == ["/id"], "the check runs")
        gone = unregister(guest, agent.desc(peer.port))
        thread.join(60)
        held.set()
    assert (gone.status_code, gone.json()) == (200, {"wasActive": False})
    assert statuses == [400]


def test_unregistering_with_another_address_reveals_nothing(guest: GuestOnLoop) -> None:
    agent = RawAgent(A)
    with RawPeer(agent) as peer:
        register(guest, agent.desc(peer.port))
        answer = unregister(guest, AgentDesc(A, "127.0.0.1:1", 1, 1))
        assert answer.status_code == 400
        assert str(peer.port) not in answer.text
        assert guest.agents.get(A) is not None


def test_an_agent_that_goes_silent_is_dropped_by_its_next_check() -> None:
    guest = GuestOnLoop(SetSettings(check_after_s=0.05, id_limit_s=5, resume_limit_s=5))
    agent = RawAgent(A)
    try:
        with RawPeer(agent) as peer:
            assert register(guest, agent.desc(peer.port)).status_code == 200
            until(lambda: agent.seen.count("/id") >= 3, "checked again and again")
        until(lambda: guest.agents.get(A) is None, "dropped")
        assert guest.agents.current is None
    finally:
        guest.close()


def test_a_resume_that_is_not_answered_in_time_drops_the_agent_alone() -> None:
    settings = SetSettings(check_after_s=600, id_limit_s=10, resume_limit_s=0.3, suspend_limit_s=10)
    guest = GuestOnLoop(settings)
    good, bad = RawAgent(A), RawAgent(B)
    held = bad.hold("/resume")
    try:
        with RawPeer(good) as one, RawPeer(bad) as two:
            register(guest, good.desc(one.port))
            until(lambda: "/resume" in good.seen, "resumed")
            assert register(guest, bad.desc(two.port)).status_code == 200
            until(lambda: guest.agents.get(B) is None, "dropped")
            until(lambda: good.seen == ["/id", "/resume", "/suspend", "/resume"], "the good one is back")
            held.set()
    finally:
        guest.close()


def test_sizes_follow_the_memory_policy(guest: GuestOnLoop) -> None:
    agent = RawAgent(A)
    with RawPeer(agent) as peer:
        assert call(guest, "PUT", "/upscale", b"{}").status_code == 403
        assert call(guest, "PUT", "/downscale", b"{}").status_code == 403
        register(guest, agent.desc(peer.port))
        up = call(guest, "PUT", "/upscale", {"cpu": 2, "memory": "8Gi"})
        assert (up.status_code, up.json()) == (200, {})

        def downscale(memory: str) -> dict[str, object]:
            answer = call(guest, "PUT", "/downscale", {"cpu": "500m", "memory": memory})
            assert answer.status_code == 200
            found: dict[str, object] = answer.json()
            return found

        until(lambda: downscale("4Gi")["Ok"] is True, "allowed once there are samples")
        refused = downscale("1Gi")
        assert refused["Ok"] is False
        assert "too little memory" in str(refused["Status"])
        assert refused.keys() == {"Ok", "Status"}


def test_callers_and_tokens_are_checked_before_the_body() -> None:
    access = Access(AllowedAddresses((ipaddress.ip_network("127.0.0.0/8"),)), "s3cret")
    guest = GuestOnLoop(access=access, protected=frozenset({"informant"}))
    try:
        url = guest.url + "/register"
        assert requests.post(url, data=b"nonsense", timeout=60).status_code == 401
        for wrong in ("Bearer s3cre", "Bearer s3cret!", "Basic s3cret", "s3cret", "Bearer \xff"):
            given = requests.post(
                url, data=b"{", headers={"Authorization": wrong.encode("latin-1")}, timeout=60
            )
            assert given.status_code == 401
        right = requests.post(url, data=b"{", headers={"Authorization": "bearer s3cret"}, timeout=60)
        assert right.status_code == 400
        assert requests.get(guest.url + "/metrics", timeout=60).status_code == 200
    finally:
        guest.close()


def test_a_caller_from_elsewhere_gets_403_everywhere() -> None:
    guest = GuestOnLoop(access=Access(AllowedAddresses((ipaddress.ip_network("10.0.0.0/8"),))))
    try:
        for path in ("/register", "/metrics", "/monitor", "/healthz", "/nothing"):
            assert requests.get(guest.url + path, timeout=60).status_code == 403
    finally:
        guest.close()


def test_callers_inside_the_process_register_and_stop(guest: GuestOnLoop) -> None:
    agent = RawAgent(A)
    with RawPeer(agent) as peer:
        assert guest.run(guest.agents.register_new_agent(agent.desc(peer.port))) == 1
        found = guest.agents.get(A)
        assert found is not None
        assert found.desc == agent.desc(peer.port)
        guest.run(guest.agents.stop())
        guest.run(guest.agents.stop())
        late = RawAgent(B)
        outcome = guest.run(guest.agents.register_new_agent(late.desc(peer.port)))
        assert getattr(outcome, "status", None) == 503


def test_stopping_ends_a_registration_that_waits() -> None:
    guest = GuestOnLoop(PATIENT)
    agent = RawAgent(A)
    held = agent.hold("/id")
    statuses: list[int] = []
    try:
        with RawPeer(agent) as peer:
            thread = threading.Thread(
                target=lambda: statuses.append(register(guest, agent.desc(peer.port)).status_code)
            )
            thread.start()
            until(lambda: agent.seen == ["/id"], "the check runs")
            guest.run(guest.agents.stop())
            thread.join(60)
            held.set()
    finally:
        guest.close()
    assert statuses == [503]


def test_a_slow_agent_holds_up_nobody_else(guest: GuestOnLoop) -> None:
    slow, quick = RawAgent(A), RawAgent(B)
    held = slow.hold("/id")
    with RawPeer(slow) as one, RawPeer(quick) as two:
        thread = threading.Thread(target=lambda: register(guest, slow.desc(one.port)))
        thread.start()
        until(lambda: slow.seen == ["/id"], "the check runs")
        assert register(guest, quick.desc(two.port)).status_code == 200
        until(lambda: quick.seen == ["/id", "/resume"], "resumed")
        held.set()
        thread.join(60)


def test_an_old_number_is_logged_and_nothing_acts_on_it(
    guest: GuestOnLoop, caplog: pytest.LogCaptureFixture
) -> None:
    agent = RawAgent(A)

    def handle(connection: socket.socket, _: int) -> None:
        for _again in range(2):
            agent.note(connection, read_head(connection))
            connection.sendall(response(b'{"data": {"agentID": "%s"}, "sequenceNumber": 5}' % A.encode()))
        read_head(connection)

    with RawPeer(handle) as peer:
        assert register(guest, agent.desc(peer.port)).status_code == 200
        told = "an agent answered with an old sequence number"
        until(lambda: told in [record.getMessage() for record in caplog.records], "told")
        assert agent.seen == ["/id", "/resume"]
        current = guest.agents.current
        assert current is not None
        assert current.desc.agent_id == A


def test_a_hook_that_fails_is_an_internal_error_in_text() -> None:
    bad = Hook(("/nonexistent/hook",))
    guest = GuestOnLoop(hooks=(bad, bad))
    agent = RawAgent(A)
    try:
        with RawPeer(agent) as peer:
            register(guest, agent.desc(peer.port))
            size: dict[str, object] = {"cpu": 1, "memory": "8Gi"}
            for path in ("/upscale", "/downscale"):
                until(lambda path=path: call(guest, "PUT", path, size).status_code == 500, "the hook fails")  # type: ignore[misc]
                answer = call(guest, "PUT", path, size)
                assert answer.text == "/nonexistent/hook could not be started\n"
            guest.is_readable = False
            time.sleep(5.5)
            stale = call(guest, "PUT", "/downscale", size)
            assert stale.status_code == 500
            assert "no memory sample" in stale.text
    finally:
        guest.close()
