"""Where a worker listens, and what happens where it can't."""

from __future__ import annotations

import socket
from pathlib import Path

import gevent
import pytest

from app.adapters.green import GreenConcurrency
from app.bootstrap.worker_web import WorkerWeb, listening_port, numbered
from app.cluster.ring import BucketSet
from app.config import Settings, build_settings
from app.errors import ConfigurationError
from app.ports.store import Holder
from app.services.stats import Stats
from tests.fakes.clock import FakeClock
from tests.fakes.stat_queues import MemoryStats
from tests.unit.services.test_stats_across_owners import Bell


def stats_for(settings: Settings) -> Stats:
    holder = Holder("worker1_127.0.0.1", "agent-1")
    return Stats(BucketSet(1), FakeClock(), GreenConcurrency(), holder, MemoryStats(), Bell())


@pytest.mark.parametrize(
    ("base", "worker", "port"),
    [(9100, "worker1", 9101), (9100, "worker12", 9112), (9100, "edge", 9100), (0, "worker3", 0)],
)
def test_the_number_in_its_name_is_added_to_the_base(base: int, worker: str, port: int) -> None:
    assert listening_port(base, worker) == port


def test_a_pod_listens_on_the_port_itself_whatever_digits_its_name_ends_in() -> None:
    pod = "vmscaler-worker-6d5f7c9b8-x2k24"
    of_a_pod = build_settings({"web": {"addWorkerNumber": False}}, {})
    assert listening_port(9100, numbered(of_a_pod, pod)) == 9100
    assert listening_port(9100, numbered(build_settings({}, {}), pod)) == 9124


def test_a_port_that_cannot_be_is_a_mistake_of_the_configuration() -> None:
    with pytest.raises(ConfigurationError, match=r"web\.port"):
        listening_port(65_000, "worker9999")


def test_an_address_that_is_taken_is_said_and_tried_again(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        settings = build_settings({"web": {"port": taken.getsockname()[1]}}, {})
        web = WorkerWeb(settings, "edge", stats_for(settings))
        stop = GreenConcurrency().signal()
        job = gevent.spawn(web.run, stop)
        with gevent.Timeout(30):
            while not web.problem:
                gevent.sleep(0.01)
        assert "can't listen" in web.problem
        assert web.address is None
        stop.set()
        job.join(30)
    assert job.ready()


def test_it_tells_where_it_really_listens() -> None:
    settings = build_settings({"web": {"port": 0}}, {})
    web = WorkerWeb(settings, "worker1", stats_for(settings))
    stop = GreenConcurrency().signal()
    job = gevent.spawn(web.run, stop)
    with gevent.Timeout(30):
        while web.address is None:
            gevent.sleep(0.01)
    host, _, port = web.address.rpartition(":")
    assert host == "127.0.0.1"
    with socket.create_connection((host, int(port)), timeout=30):
        stop.set()
    job.join(30)
    assert web.address is None
