"""The built-in scheduler over real HTTP: every version, and whatever else may arrive at its port."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import requests

from app.core.resources import resources
from app.errors import PeerUnreachable
from app.services.node_scheduler import NodeScheduler
from app.web.scheduler import SchedulerApplication
from app.web.server import Limits
from tests.fakes.scheduler_fleet import GIB, machine, node_scheduler, whole
from tests.fakes.serving import served, talk

METRICS = {"loadAvg1M": 0.5, "loadAvg5M": 0.4, "memoryUsageBytes": 1.5e9}
UNIT = resources(250, 1)


def application(scheduler: NodeScheduler) -> SchedulerApplication:
    return SchedulerApplication(scheduler, UNIT)


def body(version: int, cpu: object, mem: int, name: str = "a", **more: object) -> dict[str, object]:
    request: dict[str, object] = {
        "protoVersion": version,
        "pod": {"name": name, "namespace": "ns"},
        "resources": {"vCPUs": cpu, "mem": mem},
        "metrics": METRICS,
    }
    if version >= 6:
        request["computeUnit"] = {"vCPUs": "250m", "mem": GIB}
    return request | more


def post(port: int, request: object, **headers: str) -> requests.Response:
    return requests.post(f"http://127.0.0.1:{port}/", json=request, headers=headers, timeout=60)


IN_UNITS = {"resourceUnit": {"vCPUs": "250m", "mem": 1}}
IN_WHOLE_CPUS = {"resourceUnit": {"vCPUs": 1, "mem": 4}}
"""The same unit for agents that read no fractions."""


@pytest.mark.parametrize(
    ("version", "asked", "expected"),
    [
        (1, (2, 2), {"permit": {"vCPUs": 2, "mem": 2}} | IN_WHOLE_CPUS),
        (2, ("4", 2), {"permit": {"vCPUs": 2, "mem": 2}} | IN_WHOLE_CPUS),
        (3, ("4", 2), {"permit": {"vCPUs": "2700m", "mem": 2}} | IN_UNITS),
        (
            4,
            ("1500m", 3),
            {"permit": {"vCPUs": "1500m", "mem": 3}} | IN_UNITS,
        ),
        (5, ("1500m", 3), {"permit": {"vCPUs": "1500m", "mem": 3}}),
        (6, ("1500m", 9 * GIB), {"permit": {"vCPUs": "1500m", "mem": 5 * GIB}}),
        (7, (2, 3 * GIB), {"permit": {"vCPUs": 2, "mem": 3 * GIB}}),
    ],
)
def test_every_version_is_answered_in_its_own_words(
    version: int, asked: tuple[object, int], expected: dict[str, object]
) -> None:
    with served(application(node_scheduler(whole(machine("a")), cpu=2700, gib=5))) as port:
        answer = post(port, body(version, *asked))
    assert answer.status_code == 200, answer.text
    assert answer.json() == expected


def test_a_last_permit_is_kept_across_schedulers() -> None:
    vms = whole(machine("a"), machine("quiet"))
    with served(application(node_scheduler(vms, cpu=5000))) as port:
        answer = post(port, body(4, 3, 1, lastPermit={"vCPUs": 3, "mem": 1}))
    assert answer.json()["permit"]["vCPUs"] == 3


def test_a_migrating_vm_is_told_so_and_may_not_change() -> None:
    with served(application(node_scheduler(whole(machine("a", migrating=True))))) as port:
        same, more = post(port, body(3, 1, 1)), post(port, body(3, 2, 1))
    assert same.json()["migrate"] == {}
    assert more.status_code == 400
    assert "migrate" in more.text


def test_unknown_pods_and_nodes_are_404_with_a_text() -> None:
    with served(application(node_scheduler(whole(machine("a", node="n9"))))) as port:
        node, pod = post(port, body(3, 1, 1)), post(port, body(3, 1, 1, name="nobody"))
    assert (node.status_code, pod.status_code) == (404, 404)
    assert "n9" in node.text
    assert "ns/nobody" in pod.text


def test_an_older_token_is_refused_with_409() -> None:
    with served(application(node_scheduler(whole(machine("a"))))) as port:
        statuses = [
            post(port, body(3, 1, 1), **{"X-Vmscaler-Token": token}).status_code
            for token in ("7", "7", "6", "8", "7", "x", "-1", "")
        ]
        unfenced = post(port, body(3, 1, 1)).status_code
    assert statuses == [200, 200, 409, 200, 409, 400, 400, 400]
    assert unfenced == 200


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"\xff\xfe",
        b"[" * 60_000,
        json.dumps(body(0, 1, 1)).encode(),
        json.dumps(body(8, 1, 1)).encode(),
        json.dumps(body(3, 0, 1)).encode(),
        json.dumps(body(3, 1, 0)).encode(),
        json.dumps(body(3, "1e400", 1)).encode(),
        json.dumps(body(2, "1500m", 1)).encode(),
        json.dumps(body(3, 1, 1) | {"metrics": 7}).encode(),
    ],
)
def test_rubbish_is_400_with_a_line_of_text(data: bytes) -> None:
    with served(application(node_scheduler(whole(machine("a"))))) as port:
        answer = requests.post(f"http://127.0.0.1:{port}/", data=data, timeout=60)
    assert answer.status_code == 400
    assert answer.headers["Content-Type"].startswith("text/plain")
    assert answer.text
    assert "\n" not in answer.text


def test_a_body_above_64_kb_is_refused_and_the_next_request_answered() -> None:
    request = body(3, 1, 1, padding="x" * 70_000)
    with served(application(node_scheduler(whole(machine("a"))))) as port:
        with requests.Session() as session:
            url = f"http://127.0.0.1:{port}/"
            large = session.post(url, json=request, timeout=60)
            chunked = session.post(url, data=iter([json.dumps(request).encode()]), timeout=60)
        after = post(port, body(3, 1, 1))
    assert (large.status_code, chunked.status_code, after.status_code) == (413, 413, 200)


@pytest.mark.parametrize("megabytes", [3, 12])
def test_whoever_sends_megabytes_reads_why_they_are_refused(megabytes: int) -> None:
    piece = b"x" * (1 << 20)
    with served(application(node_scheduler(whole(machine("a"))))) as port:
        url = f"http://127.0.0.1:{port}/"
        whole_body = requests.post(url, data=piece * megabytes, timeout=60)
        in_chunks = requests.post(url, data=iter([piece] * megabytes), timeout=60)
        after = post(port, body(3, 1, 1))
    assert (whole_body.status_code, in_chunks.status_code, after.status_code) == (413, 413, 200)


def test_a_request_in_chunks_is_read() -> None:
    data = json.dumps(body(3, 1, 1)).encode()
    with served(application(node_scheduler(whole(machine("a"))))) as port:
        pieces = iter([data[:10], data[10:]])
        answer = requests.post(f"http://127.0.0.1:{port}/", data=pieces, timeout=60)
    assert answer.status_code == 200


def test_wrong_methods_and_paths_are_told() -> None:
    with served(application(node_scheduler(whole(machine("a"))))) as port:
        url = f"http://127.0.0.1:{port}"
        put = requests.put(url + "/", data=b"x" * 1000, timeout=60)
        posted = requests.post(url + "/healthz", timeout=60)
        lost = requests.get(url + "/nowhere", timeout=60)
    assert (put.status_code, put.headers["Allow"]) == (405, "GET, HEAD, POST")
    assert (posted.status_code, posted.headers["Allow"]) == (405, "GET, HEAD")
    assert lost.status_code == 404


def test_its_state_and_health_are_shown() -> None:
    with served(application(node_scheduler(whole(machine("a"))))) as port:
        post(port, body(3, 2, 2))
        dump = requests.get(f"http://127.0.0.1:{port}/", timeout=60)
        health = requests.get(f"http://127.0.0.1:{port}/healthz", timeout=60)
        ready = requests.get(f"http://127.0.0.1:{port}/readyz", timeout=60)
        heads = [
            requests.head(f"http://127.0.0.1:{port}/{page}z", timeout=60) for page in ("health", "ready")
        ]
    assert [(head.status_code, head.content) for head in heads] == [(200, b"")] * 2
    assert dump.headers["Content-Type"] == "application/json"
    assert dump.json()["nodes"][0]["reserved"] == {"milliCpu": 2000, "bytes": 2 * GIB}
    assert (health.status_code, health.json()["status"]) == (200, "ok")
    assert (ready.status_code, ready.json()) == (200, {"status": "ready", "reasons": []})


def test_before_the_fleet_is_known_it_is_unavailable_and_says_why() -> None:
    with served(application(node_scheduler(PeerUnreachable("sim", "connection\x1b[2J refused")))) as port:
        answers = [post(port, body(3, 1, 1)), requests.get(f"http://127.0.0.1:{port}/readyz", timeout=60)]
        # To start it again would not help: it asks the platform.
        assert requests.get(f"http://127.0.0.1:{port}/healthz", timeout=60).status_code == 200
    for answer in answers:
        assert answer.status_code == 503
        assert "refused" in answer.text
        assert "\x1b" not in answer.text


def test_a_hundred_requests_at_once_never_get_more_than_the_node_has() -> None:
    vms = [machine(f"vm{number:03}", use=resources(100, 1)) for number in range(100)]
    granted: dict[str, dict[str, Any]] = {}
    for _ in ("first scheduler", "second scheduler"):
        scheduler = node_scheduler(whole(*vms), cpu=20_000, gib=150)
        with served(application(scheduler)) as port, ThreadPoolExecutor(32) as pool:

            def ask(name: str, port: int = port, before: dict[str, Any] = granted) -> dict[str, Any]:
                last = before.get(name)
                answer = post(port, body(4, "1500m", 4, name=name, lastPermit=last))
                assert answer.status_code == 200, answer.text
                permit: dict[str, Any] = answer.json()["permit"]
                return permit

            names = [vm.name for vm in vms]
            for _ in range(2):
                granted = dict(zip(names, pool.map(ask, names), strict=True))
        cpus = [permit["vCPUs"] for permit in granted.values()]
        milli = [int(cpu[:-1]) if isinstance(cpu, str) else cpu * 1000 for cpu in cpus]
        assert sum(milli) == 20_000
        assert sum(permit["mem"] for permit in granted.values()) == 150
        assert scheduler.dump()["nodes"][0]["left"] == {"milliCpu": 0, "bytes": 0}  # type: ignore[index]


def test_silent_and_slow_peers_are_cut_off_while_others_are_answered() -> None:
    limits = Limits(connections=8, request_s=1.0, first_s=1.0, idle_s=1.0)
    with (
        served(application(node_scheduler(whole(machine("a")))), limits) as port,
        ThreadPoolExecutor(4) as pool,
    ):
        cut = [
            pool.submit(talk, port, b""),
            pool.submit(talk, port, b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n{"),
            pool.submit(talk, port, b"POST / HT"),
            pool.submit(talk, port, b"GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n"),
        ]
        assert post(port, body(3, 1, 1)).status_code == 200
        silent, half_body, half_line, idle = (future.result(60) for future in cut)
    assert silent == half_line == b""
    assert not half_body.startswith(b"HTTP/1.1 200")
    assert idle.startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"".join(b"H%d: x\r\n" % number for number in range(500)) + b"\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: many\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET " + b"/" * 10_000 + b" HTTP/1.1\r\n\r\n",
    ],
)
def test_what_is_no_http_ends_the_connection_and_prints_nothing(
    data: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    with served(application(node_scheduler(whole(machine("a"))))) as port:
        answer = talk(port, data)
        assert post(port, body(3, 1, 1)).status_code == 200
    assert answer.startswith((b"HTTP/1.1 400", b"HTTP/1.1 414"))
    assert capfd.readouterr() == ("", "")


def test_a_websocket_upgrade_is_just_a_request() -> None:
    upgrade = b"Connection: upgrade\r\nUpgrade: websocket\r\n"
    head = b"POST / HTTP/1.1\r\nHost: h\r\n" + upgrade + b"Content-Length: 2\r\n\r\n{}"
    limits = Limits(idle_s=0.5)
    with served(application(node_scheduler(whole(machine("a")))), limits) as port:
        assert talk(port, head).startswith(b"HTTP/1.1 400")
