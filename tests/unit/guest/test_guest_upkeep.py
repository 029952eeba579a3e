"""What keeps the daemon alive: locked memory, the watchdog, its log, its samples."""

from __future__ import annotations

import asyncio
import ctypes
import logging
import threading
from pathlib import Path

import pytest

from app.guest.access import Access
from app.guest.cpus import CpuSwitch
from app.guest.http_messages import Request, Response
from app.guest.log_lines import FactsFormatter
from app.guest.memory_lock import call_mlockall, has_lock_capability
from app.guest.routes import Routes
from app.guest.watchdog import Watchdog
from app.guest.workload import Workload

GIB = 1024**3


def test_what_is_mapped_is_locked_at_once_and_later_mappings_as_they_are_touched() -> None:
    flags: list[int] = []

    def mlockall(each: int) -> int:
        flags.append(each)
        return 0

    assert call_mlockall(mlockall) is None
    assert flags == [1, 2 | 4]


def test_a_refusal_to_lock_is_a_reason_and_no_error() -> None:
    def mlockall(_: int) -> int:
        ctypes.set_errno(12)
        return -1

    assert call_mlockall(mlockall) == "Cannot allocate memory"
    assert call_mlockall(None) == "the C library has no mlockall"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Name: x\nCapEff:\t0000000000004000\n", True),
        ("CapEff:\t000001ffffffffff\n", True),
        ("CapEff:\t0000000000000000\n", False),
        ("CapEff:\t\n", False),
        ("Name: x\n", False),
    ],
)
def test_the_capability_is_read_from_proc(tmp_path: Path, text: str, expected: bool) -> None:
    (tmp_path / "status").write_text(text)
    assert has_lock_capability(tmp_path / "status") is expected
    assert has_lock_capability(tmp_path / "nothing") is False


def test_a_lock_that_can_not_be_had_ends_the_process_once() -> None:
    lock = threading.Lock()
    said: list[str] = []
    stuck = threading.Event()

    def on_stuck(text: str) -> None:
        said.append(text)
        stuck.set()

    with lock:
        watchdog = Watchdog(lock, "the agent set", limit_s=0.01, every_s=0.01, on_stuck=on_stuck)
        watchdog.start()
        assert stuck.wait(30)
        watchdog.stop()
    assert said == ["the lock of the agent set could not be had within 0.01 s: ending"]


def test_a_lock_that_is_free_is_given_back() -> None:
    lock = threading.Lock()
    said: list[str] = []
    watchdog = Watchdog(lock, "it", limit_s=30, every_s=0.001, on_stuck=said.append)
    watchdog.start()
    for _ in range(200):
        with lock:
            continue
    watchdog.stop()
    watchdog.stop()
    assert said == []
    assert lock.acquire(blocking=False)


def test_a_log_line_has_the_facts_behind_it_made_safe() -> None:
    record = logging.makeLogRecord(
        {"msg": "an agent is dropped", "levelname": "WARNING", "problem": "a\nb\x1b[1m"}
    )
    assert FactsFormatter().format(record) == "WARNING an agent is dropped problem=a\\nb\\x1b[1m"


def test_a_log_line_of_an_error_has_its_trace() -> None:
    try:
        raise RuntimeError("on purpose")
    except RuntimeError as err:
        record = logging.makeLogRecord({"msg": "failed", "exc_info": (type(err), err, err.__traceback__)})
    lines = FactsFormatter().format(record).splitlines()
    assert lines[0].endswith(" failed")
    assert lines[-1] == "RuntimeError: on purpose"


def test_a_sampler_that_fails_says_so_once_and_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    reads: list[int] = []
    wishes: list[int] = []

    async def scenario() -> None:
        ended = asyncio.Event()

        def read() -> int:
            reads.append(1)
            if len(reads) < 4:
                raise OSError("gone")
            if len(reads) > 5:
                ended.set()
            return 8 * GIB

        workload = Workload(GIB, read)
        sampling = asyncio.create_task(workload.sample_forever(lambda: wishes.append(len(reads))))
        async with asyncio.timeout(60):
            await ended.wait()
        sampling.cancel()
        await asyncio.gather(sampling, return_exceptions=True)

    asyncio.run(scenario())
    assert [record.getMessage() for record in caplog.records] == ["memory can't be read"]
    assert wishes[0] == 4


def test_a_downscale_is_refused_until_enough_samples_have_come() -> None:
    verdict = asyncio.run(Workload(GIB, lambda: 0).try_downscale(1, GIB))
    assert not verdict.is_allowed
    assert verdict.status == "only 0 of 5 memory samples so far"


def ask(routes: Routes, method: str, path: str, body: bytes = b"", token: str = "") -> Response:
    headers = {"authorization": f"Bearer {token}"} if token else {}
    answer = asyncio.run(routes.handle(Request(method, path, "", headers, body, "127.0.0.1")))
    assert isinstance(answer, Response)
    return answer


@pytest.fixture
def cpus(tmp_path: Path) -> Routes:
    (tmp_path / "present").write_text("0-3\n")
    (tmp_path / "online").write_text("0-1\n")
    return Routes(Access(token="t"), frozenset({"cpus"}), cpus=CpuSwitch(tmp_path))


def test_cpus_are_shown_to_whoever_has_the_token(cpus: Routes) -> None:
    assert ask(cpus, "GET", "/cpus").status == 401
    answer = ask(cpus, "GET", "/cpus", token="t")
    assert (answer.status, answer.body) == (200, b'{"online":2,"present":4}')


def test_cpus_are_set_within_their_number(cpus: Routes) -> None:
    same = ask(cpus, "PUT", "/cpus", b'{"online": 2}', "t")
    assert (same.status, same.body) == (200, b'{"online":2,"present":4}')
    for body in (b"", b"[]", b"{}", b'{"online": "2"}', b'{"online": true}', b'{"online": 2.0}', b"[" * 1000):
        assert ask(cpus, "PUT", "/cpus", body, "t").status == 400
    for count in (0, 5, -1, 10**9):
        assert ask(cpus, "PUT", "/cpus", b'{"online": %d}' % count, "t").status == 400
    assert ask(cpus, "PUT", "/cpus", b" " * 2000, "t").status == 400
    assert ask(cpus, "POST", "/cpus", b"{}", "t").status == 405


def test_a_kernel_that_refuses_is_an_internal_error(cpus: Routes) -> None:
    assert ask(cpus, "PUT", "/cpus", b'{"online": 4}', "t").status == 500


def test_what_is_off_is_not_found() -> None:
    routes = Routes(Access())
    for path in ("/monitor", "/register", "/cpus", "/metrics", "/"):
        assert ask(routes, "GET", path).status == 404
    assert ask(routes, "GET", "/healthz").body == b"ok\n"
    assert ask(routes, "POST", "/healthz").status == 405


def test_it_is_ready_once_it_can_tell_of_the_guest() -> None:
    assert ask(Routes(Access()), "GET", "/readyz").body == b"ready\n"
    assert ask(Routes(Access()), "PUT", "/readyz").status == 405


def test_it_is_not_ready_where_proc_cannot_be_read(tmp_path: Path) -> None:
    routes = Routes(Access(), proc=tmp_path)
    answer = ask(routes, "GET", "/readyz")
    assert (answer.status, b"/proc can't be read" in answer.body) == (503, True)


def test_metrics_are_read_only() -> None:
    routes = Routes(Access(), has_metrics=True)
    assert ask(routes, "POST", "/metrics").status == 405
    assert b"node_load1 " in ask(routes, "GET", "/metrics").body
