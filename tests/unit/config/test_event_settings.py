"""The sections about sinks, webhooks and what is worth a notice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from app.bootstrap.billing import build_billing
from app.bootstrap.scaling_events import build_event_reports
from app.bootstrap.stores import Stores
from app.config import Settings, load_settings
from app.errors import ConfigurationError
from app.ports.store import Holder
from tests.billing_world import HeldBucket
from tests.fakes.clock import FakeClock
from tests.fakes.concurrency import VirtualConcurrency

SECRET = "sixteen bytes, or more"


def settings(tmp_path: Path, **sections: Any) -> Settings:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(sections))
    return load_settings(str(file), {})


def a_webhook(tmp_path: Path, **changes: object) -> dict[str, object]:
    (tmp_path / "secret").write_text(SECRET)
    return {"name": "ops", "url": "http://hook", "secretFile": str(tmp_path / "secret")} | changes


def problems(tmp_path: Path, **sections: Any) -> str:
    with pytest.raises(ConfigurationError) as caught:
        settings(tmp_path, **sections)
    return "\n".join(caught.value.problems)


def test_without_targets_there_are_no_events_and_without_a_section_no_billing(tmp_path: Path) -> None:
    found, clock = settings(tmp_path), FakeClock()
    runtime = clock, VirtualConcurrency(clock)
    assert build_event_reports(found, "worker1", runtime) is None
    holder, guards = Holder("worker1_127.0.0.1", "agent-1"), HeldBucket(1)  # type: ignore[arg-type]
    assert build_billing(found, Stores(found), holder, guards, runtime) is None


def test_all_targets_can_be_named_together(tmp_path: Path) -> None:
    for name, content in (("id", "AKIA"), ("key", "secret key")):
        (tmp_path / name).write_text(content)
    s3 = {
        "endpoint": "http://s3",
        "bucket": "usage",
        "accessKeyFile": str(tmp_path / "id"),
        "secretKeyFile": str(tmp_path / "key"),
    }
    file = {"directory": str(tmp_path / "out")}
    found = settings(
        tmp_path,
        billing={"url": "http://sink"},
        metering={"s3": s3, "file": file},
        scalingEvents={
            "http": {"url": "http://sink/events"},
            "s3": s3,
            "file": file,
            "webhooks": [a_webhook(tmp_path)],
        },
    )
    clock = FakeClock()
    runtime = clock, VirtualConcurrency(clock)
    reports = build_event_reports(found, "worker1", runtime)
    assert reports is not None
    assert list(reports.jobs()) == [
        "scaling events",
        *(f"events to {n}" for n in ("http", "s3", "file", "ops")),
    ]
    holder, guards = Holder("worker1_127.0.0.1", "agent-1"), HeldBucket(1)  # type: ignore[arg-type]
    billing = build_billing(found, Stores(found), holder, guards, runtime)
    assert billing is not None
    assert list(billing.jobs()) == ["billing", "billing to http", "billing to s3", "billing to file"]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"kinds": ["upscale", "upscael"]}, ".scalingEvents.webhooks[0].kinds[1]: must be one of upscale"),
        ({"kinds": []}, ".scalingEvents.webhooks[0].kinds"),
        ({"name": "Ops!"}, ".scalingEvents.webhooks[0].name"),
        ({"name": "http"}, ".scalingEvents.webhooks[0].name: another target has this name"),
        ({"template": '{"a":"{{pass}}"}'}, ".scalingEvents.webhooks[0].template: unknown name"),
        ({"template": "{{text}}"}, ".scalingEvents.webhooks[0].template: is not JSON"),
        ({"url": "ftp://x"}, ".scalingEvents.webhooks[0].url"),
        ({"secret": "x"}, ".scalingEvents.webhooks[0].secret"),
    ],
)
def test_mistakes_in_a_webhook_are_told_with_their_place(
    tmp_path: Path, changes: dict[str, object], problem: str
) -> None:
    assert problem in problems(tmp_path, scalingEvents={"webhooks": [a_webhook(tmp_path, **changes)]})


def test_two_webhooks_have_two_names(tmp_path: Path) -> None:
    hooks = [a_webhook(tmp_path), a_webhook(tmp_path)]
    told = problems(tmp_path, scalingEvents={"webhooks": hooks})
    assert ".scalingEvents.webhooks[1].name: another target has this name" in told


@pytest.mark.parametrize("content", [None, "short"])
def test_a_secret_that_is_missing_or_short_is_told_and_not_shown(tmp_path: Path, content: str | None) -> None:
    webhook = a_webhook(tmp_path)
    found = settings(tmp_path, scalingEvents={"webhooks": [webhook]})
    (tmp_path / "secret").unlink() if content is None else (tmp_path / "secret").write_text(content)
    clock = FakeClock()
    with pytest.raises(ConfigurationError, match=r"\.scalingEvents\.webhooks\[0\]\.secretFile") as caught:
        build_event_reports(found, "worker1", (clock, VirtualConcurrency(clock)))
    assert "short" not in str(caught.value).replace("too short", "")


def test_a_second_sink_of_a_billing_that_is_not_there_is_a_mistake(tmp_path: Path) -> None:
    told = problems(tmp_path, metering={"file": {"directory": "/tmp/x"}})
    assert told == ".metering.file: must not be set without .billing: nothing is billed then"


def test_a_journal_that_cannot_be_opened_is_told(tmp_path: Path) -> None:
    found = settings(
        tmp_path, billing={"url": "http://sink"}, metering={"journal": str(tmp_path / "no" / "journal")}
    )
    clock = FakeClock()
    guards = HeldBucket(1)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match=r"\.metering\.journal"):
        build_billing(found, Stores(found), Holder("w_x", "a"), guards, (clock, VirtualConcurrency(clock)))
