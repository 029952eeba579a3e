"""A worker's services and a vm-monitor, over a real websocket, for `test_worker_and_monitor`.

Runs in a process of its own, whose standard library is cooperative, as a worker's is; each scenario gives
facts as JSON values. Times are seconds, measured where the monitor is.
"""

from __future__ import annotations

import json
import logging
import socket
import sys
import time
from collections.abc import Callable
from itertools import pairwise

import gevent

from app.adapters.monitor_ws import MonitorDialer
from app.core.model import Millis
from app.core.resources import resources
from app.ports.peers import MonitorCallbacks
from app.ports.vm import Address
from app.protocols.monitor_guest import DownscaleAsked, GuestConnection, SendToAgent, UpscaleGranted
from tests.core_builders import a_config
from tests.fakes.raw_peer import RawPeer
from tests.fakes.websocket_peer import BINARY, TEXT, frame, read_frame, upgrade
from tests.service_builders import a_virtual_machine, load_of, some_settings
from tests.worker_harness import Worker

COOLDOWN_S = 0.06
FOLLOW_UP_S = 0.01
RETRY_S = 0.3
LONGEST_S = 60.0
FLOOD_S = 3.0
HEAVY_MESSAGES = 12


class Monitor:
    """A vm-monitor whose answers to downscales a scenario decides.

    Attributes:
        asked: when it was asked for a downscale, and to how many milli-vCPU and slots.
    """

    def __init__(self, answer: Callable[[GuestConnection, DownscaleAsked], bytes]) -> None:
        self._answer = answer
        self.asked: list[tuple[float, int, int]] = []
        self.sent_requests = 0
        self.is_flooding = False
        self.upscales = 0

    def __call__(self, connection: socket.socket, number: int) -> None:
        upgrade(connection)
        guest = GuestConnection()
        flood = gevent.spawn(self._flood, connection, guest)
        try:
            while (message := read_frame(connection))[0] in (TEXT, BINARY):
                for effect in guest.receive(message[1]):
                    self._handle(connection, guest, effect)
        finally:
            flood.kill()

    def _handle(self, connection: socket.socket, guest: GuestConnection, effect: object) -> None:
        match effect:
            case SendToAgent(data):
                connection.sendall(frame(data))
            case UpscaleGranted(message_id):
                self.upscales += 1
                connection.sendall(frame(guest.confirm_upscale(message_id)))
            case DownscaleAsked(_, cpu, mem):
                self.asked.append((time.monotonic(), round(cpu * 1000), mem >> 30))
                connection.sendall(frame(self._answer(guest, effect)))

    def _flood(self, connection: socket.socket, guest: GuestConnection) -> None:
        """A thousand requests for memory a second while it is switched on."""
        while True:
            if self.is_flooding and guest.is_open:
                connection.sendall(frame(guest.request_upscale()) * 10)
                self.sent_requests += 10
            gevent.sleep(0.01)


class Told(logging.Handler):
    """What was logged at INFO and above."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def _worker(peer: RawPeer, **vm: object) -> Worker:
    config = a_config(
        monitor_denied_downscale_cooldown=Millis(round(COOLDOWN_S * 1000)),
        monitor_downscale_follow_up_wait=Millis(round(FOLLOW_UP_S * 1000)),
        monitor_retry_wait=Millis(round(RETRY_S * 1000)),
    )
    return Worker(
        a_virtual_machine(monitor_address=Address(peer.host, peer.port), **vm),
        monitors=MonitorDialer(30),
        settings=some_settings(core=config, monitor_retry_min_wait_s=0.05),
    )


def _drive(worker: Worker, load: float, until: Callable[[], bool]) -> None:
    """Ask the core again and again, as the owner's timers and samples do."""
    runner, end = worker.runner, time.monotonic() + LONGEST_S
    while not until():
        if time.monotonic() > end:
            raise TimeoutError("the scenario never came to its end")
        runner.take_sample(load_of(load))
        worker.scaling.consider(runner)
        gevent.sleep(0.005)
        worker.platform_news()


def _facts(worker: Worker, monitor: Monitor) -> dict[str, object]:
    runner = worker.runner
    runner.update_status()
    return {
        "asked": monitor.asked,
        "denied": runner.counters.denied,
        "failed": runner.counters.failed,
        "status": runner.status,
        "use": [runner.state.vm.use.cpu, runner.state.vm.use.mem],
        "crashes": len(worker.crashes),
    }


def denials() -> dict[str, object]:
    """A hundred denials in a row, then leave."""
    is_kind = False

    def answer(guest: GuestConnection, asked: DownscaleAsked) -> bytes:
        return guest.answer_downscale(asked.message_id, is_allowed=is_kind, status="too little memory")

    monitor = Monitor(answer)
    with RawPeer(monitor) as peer:
        worker = _worker(peer)
        runner = worker.runner
        worker.until(lambda: runner.state.monitor.is_active)
        _drive(worker, 0.5, lambda: runner.counters.denied >= 100)
        found = _facts(worker, monitor)
        is_kind = True
        _drive(worker, 0.5, lambda: runner.state.vm.use == resources(500, 2))
        return found | {"in_the_end": [runner.state.vm.use.cpu, runner.state.vm.use.mem]}


def error() -> dict[str, object]:
    """The first downscale fails, the second is allowed."""
    answers = 0

    def answer(guest: GuestConnection, asked: DownscaleAsked) -> bytes:
        nonlocal answers
        answers += 1
        if answers == 1:
            return guest.report_failure(asked.message_id, "the cgroup is gone")
        return guest.answer_downscale(asked.message_id, is_allowed=True, status="")

    monitor = Monitor(answer)
    with RawPeer(monitor) as peer:
        worker = _worker(peer)
        runner = worker.runner
        worker.until(lambda: runner.state.monitor.is_active)
        _drive(worker, 0.5, lambda: runner.state.vm.use == resources(500, 2))
        return _facts(worker, monitor)


def flood() -> dict[str, object]:
    """A VM at its maximum whose guest asks a thousand times a second."""
    monitor = Monitor(
        lambda guest, asked: guest.answer_downscale(asked.message_id, is_allowed=True, status="")
    )
    told = Told()
    logging.getLogger("app").addHandler(told)
    logging.getLogger("app").setLevel(logging.INFO)
    with RawPeer(monitor) as peer:
        most = resources(1_000, 4)
        worker = _worker(peer, max=most, use=most, observed=most)
        runner = worker.runner
        worker.until(lambda: runner.state.monitor.is_active)
        events: list[str] = []
        apply = runner.apply

        def watched(event: object) -> object:
            events.append(type(event).__name__)
            return apply(event)  # type: ignore[arg-type]

        runner.apply = watched  # type: ignore[method-assign,assignment]
        monitor.is_flooding = True
        begun = time.monotonic()
        _drive(worker, 4, lambda: time.monotonic() - begun > FLOOD_S)
        elapsed = time.monotonic() - begun
        monitor.is_flooding = False
        worker._commit(runner)
        return _facts(worker, monitor) | {
            "sent": monitor.sent_requests,
            "forwarded": events.count("MonitorUpscaleRequested"),
            "elapsed": elapsed,
            "lines": told.lines,
            "trail": worker.audit(),
            "permits": sum("permit" in line for line in worker.log),
        }


def heavy() -> dict[str, object]:
    """A guest that sends nothing but messages that take long to read; what a neighbour could do meanwhile."""
    body = b'{"type": "UpscaleRequest", "id": 1, "x": [' + b"[]," * 21_000 + b"0]}"
    ends: list[str] = []
    turns, seen, at = 0, [0], [time.monotonic()]

    def monitor(connection: socket.socket, number: int) -> None:
        upgrade(connection)
        read_frame(connection)
        connection.sendall(frame(b'{"version": 1}'))
        while True:
            connection.sendall(frame(body))

    def heard() -> None:
        seen.append(turns)
        at.append(time.monotonic())

    def live() -> None:
        nonlocal turns
        while True:
            gevent.sleep(0.0001)
            turns += 1

    with RawPeer(monitor) as peer:
        address = Address(peer.host, peer.port)
        session = MonitorDialer(30).connect(
            address, MonitorCallbacks(heard, lambda: None, ends.append), timeout_s=LONGEST_S
        )
        neighbour = gevent.spawn(live)
        gevent.sleep(0.01)
        session.serve(lambda: len(seen) <= HEAVY_MESSAGES)
        neighbour.kill()
    took = [later - earlier for earlier, later in pairwise(seen)]
    return {"turns": took, "seconds": at[-1] - at[0], "bytes": len(body) * HEAVY_MESSAGES}


def main() -> None:
    """Run the scenario that is named; print its facts."""
    scenarios = {"denials": denials, "error": error, "flood": flood, "heavy": heavy}
    sys.stdout.write(json.dumps(scenarios[sys.argv[1]]()))
