"""A connection to a monitor that is being made counts as work in flight when its bucket is handed over."""

from __future__ import annotations

import gevent
from gevent.event import Event

from app.ports.peers import MonitorCallbacks
from app.ports.vm import Address
from tests.fakes.peers import FakeMonitor
from tests.service_builders import BUCKET
from tests.worker_harness import Worker


class SlowMonitor(FakeMonitor):
    """Takes a connection when `opened` is set."""

    def __init__(self) -> None:
        super().__init__([])
        self.opened = Event()
        self.dialled = 0

    def connect(self, address: Address, callbacks: MonitorCallbacks, *, timeout_s: float) -> FakeMonitor:
        self.dialled += 1
        self.opened.wait()
        return super().connect(address, callbacks, timeout_s=timeout_s)


def test_a_bucket_is_not_handed_over_while_its_monitor_is_being_dialled() -> None:
    monitor = SlowMonitor()
    worker = Worker(monitors=monitor)
    worker.until(lambda: monitor.dialled == 1)
    handing_over = gevent.spawn(worker.supervisor.releasing, BUCKET)
    gevent.sleep(0.1)
    assert not handing_over.ready()
    monitor.opened.set()
    handing_over.get(timeout=10)
    assert worker.supervisor.runners() == []
    worker.until(lambda: monitor.exited)


def test_a_monitor_that_takes_no_connection_holds_a_hand_over_up_for_a_second_only() -> None:
    monitor = SlowMonitor()
    worker = Worker(monitors=monitor)
    worker.until(lambda: monitor.dialled == 1)
    gevent.spawn(worker.supervisor.releasing, BUCKET).get(timeout=10)
    assert worker.supervisor.runners() == []
    monitor.opened.set()
    worker.until(lambda: monitor.connections == 1 and monitor.exited)


def test_a_worker_that_ends_dials_no_monitor_any_more() -> None:
    monitor = SlowMonitor()
    monitor.opened.set()
    worker = Worker(monitors=monitor)
    worker.until(lambda: monitor.connections == 1)
    worker.supervisor.dial_no_more()
    monitor.die()
    gevent.sleep(0.3)
    assert monitor.dialled == 1
