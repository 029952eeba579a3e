"""`GET /` of the state dump over HTTP: from a thread with a loop of its own, beside a blocked one."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import gevent
import pytest
import requests

from app.adapters.client_tls import client_tls
from app.adapters.clock import SystemClock
from app.adapters.pages_http import Entry, PagesHttp
from app.errors import PeerRefused, PeerUnreachable
from app.ports.runtime import Concurrency
from app.services.state_dump import StateDump
from app.web.dump import dump_application
from app.web.own_loop import OwnLoopServer
from app.web.protection import Protection, server_tls
from app.web.server import Limits, WebServer
from tests.fakes.certificates import Certificate, make_certificates
from tests.fleet_process import until
from tests.service_builders import a_virtual_machine
from tests.worker_harness import Worker

TOKEN = "a-token-of-the-tests"


def serve(
    worker: Worker, *, timeout_s: float = 5.0, token: str | None = None, tls: Certificate | None = None
) -> OwnLoopServer:
    context = None if tls is None else server_tls(str(tls.cert), str(tls.key), where="tls")
    dump = StateDump(
        worker.supervisor, worker.link, SystemClock(), lambda: False, {"version": "1"}, timeout_s=timeout_s
    )

    def build(concurrency: Concurrency) -> WebServer:
        application = dump_application(dump, concurrency)
        limits = Limits(connections=8, body_bytes=0, idle_s=1.0)
        return WebServer(
            application, "127.0.0.1", 0, limits=limits, protection=Protection(token=token, tls=context)
        )

    server = OwnLoopServer("state dump", build)
    server.start()
    until(lambda: server.port is not None, "the server listens")
    return server


@pytest.fixture
def worker() -> Worker:
    return Worker(*(a_virtual_machine(name=name, uid=name) for name in ("b", "a")))


@pytest.fixture
def server(worker: Worker) -> Iterator[OwnLoopServer]:
    server = serve(worker)
    yield server
    server.stop()
    until(lambda: server.is_over, "the thread ends")


def get(server: OwnLoopServer, query: str = "", **options: object) -> requests.Response:
    return requests.get(f"http://127.0.0.1:{server.port}/{query}", timeout=60, **options)  # type: ignore[arg-type]


def test_the_dump_is_json_and_ends_its_connection(server: OwnLoopServer) -> None:
    answer = get(server)
    assert (answer.status_code, answer.headers["Content-Type"]) == (200, "application/json")
    assert answer.headers["Connection"] == "close"
    assert [pod["podName"]["name"] for pod in answer.json()["pods"]] == ["a", "b"]


def test_a_part_is_given_where_it_is_asked_for(server: OwnLoopServer) -> None:
    assert [pod["podName"]["name"] for pod in get(server, "?vm=default/a").json()["pods"]] == ["a"]
    assert get(server, "?bucket=autoscaler-bucket-00-of-07").json()["pods"] == []


@pytest.mark.parametrize("query", ["?node=1", "?vm=a&vm=b", "?x", "?vm=" + "a" * 3_000, "?=", "?&"])
def test_any_other_question_is_refused(server: OwnLoopServer, query: str) -> None:
    answer = get(server, query)
    assert answer.status_code == 400
    assert "vm=NAMESPACE/NAME" in answer.text


def test_other_methods_and_pages_are_refused(server: OwnLoopServer) -> None:
    url = f"http://127.0.0.1:{server.port}"
    assert requests.post(url, timeout=60).status_code == 405
    assert requests.get(f"{url}/dump", timeout=60).status_code == 404


def test_it_is_answered_while_the_loop_of_the_worker_is_blocked(
    worker: Worker, server: OwnLoopServer
) -> None:
    answers: list[tuple[int, float]] = []

    def ask() -> None:
        answers.extend((get(server).status_code, time.monotonic()) for _ in range(3))

    asking = threading.Thread(target=ask)
    asking.start()
    # No greenlet of this thread has a turn meanwhile.
    blocked_until = time.monotonic() + 3.0
    while time.monotonic() < blocked_until and len(answers) < 3:
        time.sleep(0.01)
    asking.join(60)
    assert [status for status, _ in answers] == [200, 200, 200]
    assert all(at < blocked_until for _, at in answers)


def test_a_dump_that_gets_nothing_in_time_is_a_500_that_says_so(worker: Worker) -> None:
    server = serve(worker, timeout_s=0.3)
    worker.supervisor.link = lambda runner: gevent.sleep(60)  # type: ignore[method-assign]
    try:
        answer = get(server)
    finally:
        server.stop()
    assert answer.status_code == 500
    assert answer.text == "no state dump: none of 2 VMs could be collected within 0.3 s"


def test_it_asks_for_the_token_of_the_workers_other_pages(worker: Worker) -> None:
    server = serve(worker, token=TOKEN)
    try:
        refused, let_in = get(server), get(server, headers={"Authorization": f"Bearer {TOKEN}"})
    finally:
        server.stop()
    assert (refused.status_code, let_in.status_code) == (401, 200)


def test_an_address_that_is_taken_is_told_and_tried_again(worker: Worker) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        server = OwnLoopServer(
            "state dump", lambda concurrency: WebServer(lambda environ, start: [], "127.0.0.1", port)
        )
        server.start()
        until(lambda: server.problem != "", "the problem is told")
        assert f"port {port}" in server.problem
        server.stop()
        until(lambda: server.is_over, "the thread ends")


def test_the_operators_reader_is_let_in_over_tls_with_the_token_and_believes_nobody_else(
    worker: Worker, tmp_path: Path
) -> None:
    made = make_certificates(tmp_path)
    server = serve(worker, token=TOKEN, tls=made.good)
    address = f"127.0.0.1:{server.port}"
    entries = {"worker": Entry(TOKEN, is_tls=True)}
    ours = PagesHttp(entries, client_tls(str(made.authority.cert), where="fleet"))
    theirs = PagesHttp(entries, client_tls(None, where="fleet"))
    try:
        body = ours.read("worker", address, "/", timeout_s=30, max_bytes=1 << 20)
        assert [pod["podName"]["name"] for pod in json.loads(body)["pods"]] == ["a", "b"]
        with pytest.raises(PeerRefused, match="status 401"):
            PagesHttp(
                {"worker": Entry(None, is_tls=True)}, client_tls(str(made.authority.cert), where="")
            ).read("worker", address, "/", timeout_s=30, max_bytes=1 << 20)
        with pytest.raises(PeerRefused, match="above 100 bytes"):
            ours.read("worker", address, "/", timeout_s=30, max_bytes=100)
        with pytest.raises(PeerUnreachable, match="certificate is not accepted"):
            theirs.read("worker", address, "/", timeout_s=30, max_bytes=1 << 20)
    finally:
        server.stop()
