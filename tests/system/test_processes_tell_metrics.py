"""A worker and a beat as processes answer `/metrics`, and series of a VM go with it."""

from __future__ import annotations

import json
from pathlib import Path

import requests
from prometheus_client.parser import text_string_to_metric_families

from app.adapters.embedded_redis import start_embedded
from app.bootstrap.stores import Stores
from app.config import load_settings
from tests.celery_process import CeleryProcess, write_config
from tests.fleet_process import FleetProcess, until

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def scrape(address: str) -> Samples:
    answer = requests.get(f"http://{address}/metrics", timeout=60)
    assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples.get((name, frozenset(labels.items())), 0.0)


def vms_of(samples: Samples) -> set[str]:
    told = [dict(labels) for name, labels in samples if name == "autoscaling_vm_resources"]
    return {labels["vm_name"] for labels in told}


def beat_address(config: Path) -> str | None:
    agents = Stores(load_settings(str(config), {})).agents
    facts = [json.loads(record.facts) for record in agents.list()]
    return next((each["address"] for each in facts if each["kind"] == "beat"), None)


def test_worker_and_beat_tell_what_they_do(short_directory: Path) -> None:
    redis = start_embedded(short_directory / "redis")
    fleet = FleetProcess(vms=2)
    platform = {"kind": "sim", "url": fleet.url}
    config = write_config(short_directory / "config.json", {"url": redis.url}, platform=platform)
    worker = CeleryProcess.worker(config, short_directory)
    beat = CeleryProcess.beat(config, short_directory)
    try:
        address = worker.web_address()
        names = {key.partition("/")[2] for key in fleet.vms()}
        polled = {"task": "poll_bucket", "end": "succeeded"}

        def is_polled() -> bool:
            samples = scrape(address)
            return value(samples, "vmscaler_celery_tasks_total", **polled) > 4 and vms_of(samples) == names

        until(is_polled, "buckets are polled, and VMs told of")
        samples = scrape(address)
        assert value(samples, "vmscaler_leases_held") == value(samples, "vmscaler_buckets") == 4
        # The parser says `_total` behind every counter; on the page the name is as it always was.
        assert value(samples, "autoscaling_agent_runner_starts_total") == 2
        assert value(samples, "vmscaler_polls_total") > 0
        assert value(samples, "vmscaler_redis_round_trip_seconds_count", kind="script", result="ok") > 0
        until(lambda: beat_address(config) is not None, "beat is registered")
        of_beat = scrape(str(beat_address(config)))
        assert value(of_beat, "vmscaler_beat_leads") == 1
        assert value(of_beat, "vmscaler_beat_ticks_total", end="sent") > 0
        gone = sorted(fleet.vms())[0]
        fleet.api("DELETE", f"/v1/vms/{gone}")
        left = names - {gone.partition("/")[2]}
        until(lambda: vms_of(scrape(address)) == left, "its series are gone")
    finally:
        worker.stop(9)
        beat.stop(9)
        fleet.stop()
        redis.stop()
