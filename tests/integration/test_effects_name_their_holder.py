"""Workers say who they are and whose bucket it is; receivers fence the whole bucket and keep a journal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import requests

from app.adapters.metrics_http import MetricsPages
from app.adapters.monitor_ws import MonitorDialer
from app.adapters.platform_sim import SimPlatform
from app.core.resources import resources
from app.errors import PeerRefused
from app.ports.peers import MonitorCallbacks
from app.ports.sender import Sender, holder_text, readable
from app.ports.store import FencingToken, Holder
from app.web.scheduler import SchedulerApplication
from tests.fakes.scheduler_fleet import machine, node_scheduler, whole
from tests.fakes.serving import served
from tests.fleet_process import FleetProcess, until

SENDER = Sender(holder_text(Holder("worker1_127.0.0.1", "id-1")), lambda key: "bucket-7")
SILENT = MonitorCallbacks(lambda: None, lambda: None, lambda reason: None)


def test_a_holder_stands_in_a_header_whatever_its_name() -> None:
    assert SENDER.holder == "worker1_127.0.0.1/id-1"
    assert holder_text(Holder("wörker 1\r\n_::1", "x")) == "wrker1_::1/x"
    assert readable("worker1_127.0.0.1/id-1") == "worker1_127.0.0.1/id-1"
    assert [readable(text) for text in (None, "a b", "a\x00", "x" * 500)] == [""] * 4


def test_the_fleet_journals_who_polled_connected_and_asked_and_refuses_the_old_owner_of_a_bucket(
    tmp_path: Path,
) -> None:
    path = tmp_path / "journal"
    fleet = FleetProcess("--journal", str(path))
    platform = SimPlatform(fleet.url, sender=SENDER)
    pages, dialer = MetricsPages(sender=SENDER), MonitorDialer(30.0, sender=SENDER)
    try:
        first, second = platform.changes(None, wait_s=0).updated[:2]
        assert first.metrics is not None
        assert first.monitor_address is not None
        pages.fetch(first.metrics, timeout_s=30)
        session = dialer.connect(first.monitor_address, SILENT, timeout_s=30)
        session.serve_in_background()
        session.upscale(resources(250, 1), first.slot_bytes, timeout_s=30)
        platform.apply_size(first, first.use, token=FencingToken(9), timeout_s=30)
        # One who has read the VM's size with a newer token fences the bucket as well.
        reader = SimPlatform(
            fleet.url, sender=Sender("worker2_::1/id-2", SENDER.bucket_of, lambda bucket: 10)
        )
        reader.read_size(second, timeout_s=30)
        reader.close()
        try:
            platform.apply_size(second, second.use, token=FencingToken(9), timeout_s=30)
            refusal = None
        except PeerRefused as err:
            refusal = err.code
        until(lambda: b'"applied"' in path.read_bytes(), "the size is applied")
    finally:
        fleet.stop()
        platform.close()
        pages.close()
    assert refusal == 409
    lines: list[dict[str, Any]] = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["n"] for line in lines] == list(range(1, len(lines) + 1))
    assert [line["mono"] for line in lines] == sorted(line["mono"] for line in lines)
    told = [line for line in lines if line["effect"] == "monitor told"]
    assert told[0]["to"] == {"cpu_m": 250, "mem_bytes": first.slot_bytes}
    named = {(line["effect"], line["holder"], line.get("status")) for line in lines if "holder" in line}
    assert {effect for effect, _, _ in named} == {"polled", "monitor connected", "monitor told", "asked"}
    assert {holder for _, holder, _ in named} == {SENDER.holder}
    assert {status for effect, _, status in named if effect == "asked"} == {202, 409}


def test_the_scheduler_refuses_the_old_owner_of_a_bucket_for_every_vm_of_it_and_journals_both() -> None:
    lines: list[dict[str, Any]] = []

    def keep(**facts: object) -> None:
        lines.append(facts)

    scheduler = node_scheduler(whole(machine("a"), machine("b")), cpu=5000, gib=8)
    with served(SchedulerApplication(scheduler, resources(250, 1), keep)) as port:

        def ask(name: str, token: int, bucket: str) -> int:
            body = {
                "protoVersion": 4,
                "pod": {"name": name, "namespace": "ns"},
                "resources": {"vCPUs": 1, "mem": 1},
                "metrics": {"loadAvg1M": 0.5, "loadAvg5M": 0.4, "memoryUsageBytes": 1.5e9},
            }
            headers = {"X-Vmscaler-Token": str(token), **SENDER.headers(), "X-Vmscaler-Bucket": bucket}
            url = f"http://127.0.0.1:{port}/"
            return requests.post(url, json=body, headers=headers, timeout=60).status_code

        assert ask("a", 9, "bucket-7") == 200
        assert ask("b", 8, "bucket-7") == 409
        assert ask("b", 8, "bucket-8") == 200
    assert [line["effect"] for line in lines] == ["granted", "refused", "granted"]
    assert lines[1]["reason"] == "old token"
    assert lines[0]["to"]["cpu_m"] == 1000
    assert {line["holder"] for line in lines} == {SENDER.holder}
