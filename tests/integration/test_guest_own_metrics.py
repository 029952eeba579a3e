"""What the daemon in a VM counts of itself: known requests to a real one, and its page after them."""

from __future__ import annotations

import ipaddress
import socket
import sys
from pathlib import Path

import requests
from prometheus_client.parser import text_string_to_metric_families

from app.guest.access import Access
from app.protocols.access import AllowedAddresses
from app.protocols.guest_metrics import GUEST_FAMILIES, MEMORY_REQUESTS, MEMORY_SAMPLES, REFUSED
from tests.fakes.guest_on_loop import GIB, GuestOnLoop, RawAgent
from tests.fakes.monitor_agent import MonitorAgent
from tests.fakes.raw_peer import RawPeer
from tests.fleet_process import until
from tests.integration.test_guest_run_command import daemon

TIB = 1024**4
AGENT = "aaaaaaaa-0000-4000-8000-000000000000"


def counts(url: str) -> dict[tuple[str, ...], float]:
    """The daemon's own samples by name and label values; the page must be one that Prometheus can read."""
    text = requests.get(f"{url}/metrics", timeout=60).text
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith("vmscaler_")
    }


def test_connections_sizes_hooks_and_refusals_are_counted(tmp_path: Path) -> None:
    (token := tmp_path / "token").write_text("a-secret\n")
    fails_small = "import os, sys; sys.exit(int(os.environ['VMSCALER_MEM_BYTES']) < 2**40)"
    (hook := tmp_path / "hook.py").write_text(fails_small)
    words = ("--monitor", "127.0.0.1:0", "--informant", "127.0.0.1:0", "--metrics", "127.0.0.1:0")
    more = ("--token-file", str(token), "--upscale-hook", f"{sys.executable} {hook}", "--hook-seconds", "20")
    with daemon(*words, *more, roles=3) as (ports, _), RawPeer(RawAgent(AGENT)) as peer:
        url = f"http://127.0.0.1:{ports['metrics']}"
        before = counts(url)
        assert before["vmscaler_guest_monitor_connected",] == 0
        assert before["vmscaler_guest_resizes_total", "downscale", "denied"] == 0

        MonitorAgent(ports["monitor"])
        agent = MonitorAgent(ports["monitor"])
        too_early = agent.wait_for_samples(TIB)
        assert agent.downscale(1)["Ok"] is False
        assert agent.upscale(2 * TIB)["type"] == "UpscaleConfirmation"
        assert agent.upscale(TIB // 2)["type"] == "InternalError"
        body = {
            "agentID": AGENT,
            "agentServeAddr": f"127.0.0.1:{peer.port}",
            "minProtoVersion": 1,
            "maxProtoVersion": 1,
        }
        informant = f"http://127.0.0.1:{ports['informant']}/register"
        assert requests.post(informant, json=body, timeout=60).status_code == 401
        known = {"Authorization": "Bearer a-secret"}
        assert requests.post(informant, json=body, headers=known, timeout=60).status_code == 200

        after = counts(url)
        assert after["vmscaler_guest_monitor_connected",] == 1
        assert after["vmscaler_guest_monitor_connections_total",] == 2
        assert after["vmscaler_guest_informant_agents",] == 1
        assert after["vmscaler_guest_resizes_total", "downscale", "agreed"] == 1
        assert after["vmscaler_guest_resizes_total", "downscale", "denied"] == too_early + 1
        assert after["vmscaler_guest_resizes_total", "upscale", "agreed"] == 1
        assert after["vmscaler_guest_resizes_total", "upscale", "failed"] == 1
        assert after["vmscaler_guest_hook_seconds_count", "upscale", "ok"] == 1
        assert after["vmscaler_guest_hook_seconds_count", "upscale", "failed"] == 1
        assert after["vmscaler_guest_refused_total", "token"] == 1
        assert after["vmscaler_guest_memory_samples_total", "ok"] >= 5
        assert after["vmscaler_guest_memory_samples_total", "failed"] == 0
        agent.socket.close()


def test_requests_for_memory_and_samples_that_failed_are_counted() -> None:
    before, unread = MEMORY_REQUESTS.value(), MEMORY_SAMPLES.value("failed")
    guest = GuestOnLoop()
    try:
        agent = MonitorAgent(guest.port)
        guest.used_bytes = 8 * GIB
        assert agent.receive()["type"] == "UpscaleRequest"
        assert MEMORY_REQUESTS.value() > before
        guest.is_readable = False
        until(lambda: MEMORY_SAMPLES.value("failed") > unread, "a sample that failed is counted")
    finally:
        guest.close()


def test_callers_that_are_turned_away_are_counted_by_reason() -> None:
    before = {reason: REFUSED.value(reason) for reason in REFUSED.labels["reason"]}
    guest = GuestOnLoop(access=Access(callers=AllowedAddresses([ipaddress.ip_network("10.9.0.0/16")])))
    try:
        assert requests.get(f"{guest.url}/metrics", timeout=60).status_code == 403
        assert REFUSED.value("address") == before["address"] + 1
        held = [socket.create_connection(("127.0.0.1", guest.port), timeout=60) for _ in range(65)]
        until(lambda: REFUSED.value("connections") > before["connections"], "one too many is counted")
        for one in held:
            one.close()
    finally:
        guest.close()


def test_a_page_has_every_family_but_what_never_happened() -> None:
    with daemon("--metrics", "127.0.0.1:0", roles=1) as (ports, _):
        text = requests.get(f"http://127.0.0.1:{ports['metrics']}/metrics", timeout=60).text
    absent = {each.name for each in GUEST_FAMILIES if f"# TYPE {each.name} " not in text}
    assert absent == {"vmscaler_guest_hook_seconds", "vmscaler_guest_oom_kill_age_seconds"}
