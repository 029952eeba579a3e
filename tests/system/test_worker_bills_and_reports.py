"""A whole worker brings usage events to its sink, and what happens to a VM's size to sink and webhook."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from app.adapters.embedded_redis import start_embedded
from app.protocols.webhook import is_signed
from tests.celery_process import CeleryProcess, write_config
from tests.fakes.event_server import EventServer, event_server
from tests.fleet_process import FleetProcess, until

SECRET = "sixteen bytes, or more"


def sections(directory: Path, sink: EventServer, hook: EventServer) -> dict[str, Any]:
    (directory / "secret").write_text(SECRET)
    webhook = {
        "name": "ops",
        "url": hook.url,
        "secretFile": str(directory / "secret"),
        "kinds": ["changed"],
        "template": '{"text":"{{text}}"}',
    }
    return {
        "billing": {
            "url": sink.url,
            "collectEverySeconds": 0.2,
            "accumulateEverySeconds": 0.5,
            "pushEverySeconds": 0.2,
        },
        "scalingEvents": {
            "pushEverySeconds": 0.2,
            "http": {"url": f"{sink.url}/scaling"},
            "webhooks": [webhook],
        },
    }


def events(server: EventServer, path: str) -> list[dict[str, Any]]:
    bodies = [json.loads(request.body) for request in server.requests if request.path == path]
    return [event for body in bodies for event in body["events"]]


def test_a_worker_bills_its_vms_and_tells_of_their_sizes(short_directory: Path) -> None:
    redis = start_embedded(short_directory / "redis")
    fleet = FleetProcess(vms=2)
    with event_server(EventServer()) as sink, event_server(EventServer()) as hook:
        platform = {"kind": "sim", "url": fleet.url}
        config = write_config(
            short_directory / "config.json",
            {"url": redis.url},
            platform=platform,
            **sections(short_directory, sink, hook),
        )
        worker = CeleryProcess.worker(config, short_directory)
        try:
            keys = list(fleet.vms())
            key, vm = keys[0], fleet.vm(keys[0])

            def is_billed() -> bool:
                size = 500 if fleet.vm(key)["use"]["cpu_m"] == 750 else 750
                fleet.ask(fleet.vm(key), size, vm["use"]["mem"], token=10**9)
                time.sleep(0.5)
                return sum(e["value"] for e in events(sink, "/usage_events")) > 4 and bool(hook.requests)

            until(is_billed, "both VMs are billed, and a webhook is told")
            assert worker.stop() == 0
        finally:
            worker.stop(9)
            fleet.stop()
            redis.stop()
    billed = {event["endpoint_id"] for event in events(sink, "/usage_events")}
    assert billed == {f"ep-{each.partition('/')[2]}" for each in keys}
    changed = [event for event in events(sink, "/scaling") if event["kind"] == "changed"]
    assert changed
    assert all(event["vm"] == key and event["worker"] == "worker1" for event in changed)
    told = hook.requests[0]
    assert json.loads(told.body)["text"].startswith(f"{key}: changed ")
    assert is_signed(SECRET, told.body, told.headers["x-vmscaler-signature"], int(time.time()))
