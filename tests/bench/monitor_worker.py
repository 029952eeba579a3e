"""One patched process with many monitor links, as a worker holds them: memory and CPU of the links alone.

Imported once the standard library is cooperative.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import time
from pathlib import Path

import gevent

from app.adapters.clock import SystemClock
from app.adapters.green import GreenConcurrency
from app.adapters.monitor_ws import MonitorDialer
from app.ports.vm import Address
from app.services.monitor_links import MonitorLinks
from app.services.runner import Runner
from tests.service_builders import BUCKET, a_virtual_machine, some_settings
from tests.worker_harness import Guards

DIALS_AT_ONCE = 50


def rss_bytes() -> int:
    """Resident memory of this process."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def runners(address: Address, count: int) -> list[Runner]:
    """Ready runners of VMs whose monitor is at the address."""
    clock, settings = SystemClock(), some_settings(monitor_connect_timeout_s=60.0)
    made = []
    for index in range(count):
        vm = a_virtual_machine(name=f"db-{index}", uid=str(index), monitor_address=address)
        runner = Runner(vm, BUCKET, settings, clock)
        runner.is_ready = runner.has_intents = True
        made.append(runner)
    return made


def main(port: int, count: int, seconds: float) -> None:
    """Connect all, let them settle, measure; print one JSON object, end the process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, count + 256)), hard))
    all_runners = runners(Address("127.0.0.1", port), count + 1)
    links = MonitorLinks(MonitorDialer(30), Guards(), SystemClock(), GreenConcurrency(), lambda runner: None)
    # The first one loads what is loaded once.
    links.adjust(all_runners[0])
    wait_until_active(all_runners[:1])
    before = rss_bytes()
    for at in range(1, count + 1, DIALS_AT_ONCE):
        batch = all_runners[at : at + DIALS_AT_ONCE]
        for runner in batch:
            links.adjust(runner)
        wait_until_active(batch)
    # Every one has been through a health check.
    gevent.sleep(7)
    memory = rss_bytes() - before
    cpu, begun = time.process_time(), time.monotonic()
    gevent.sleep(seconds)
    cpu, elapsed = time.process_time() - cpu, time.monotonic() - begun
    memory = max(memory, rss_bytes() - before)
    alive = sum(runner.state.monitor.is_active for runner in all_runners[1:])
    print(json.dumps({"alive": alive, "bytes": memory, "cpu_s": cpu, "elapsed_s": elapsed}), flush=True)
    os._exit(0)


def wait_until_active(batch: list[Runner]) -> None:
    """Until every one is connected."""
    with gevent.Timeout(120):
        while not all(runner.state.monitor.is_active for runner in batch):
            gevent.sleep(0.02)
