"""docs/metrics.md, alert rules and dashboard: they name metrics that are there, and places that exist."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.ports.agent_metrics import AGENT_FAMILIES
from app.ports.own_metrics import BEAT_FAMILIES, SCHEDULER_FAMILIES, WORKER_FAMILIES
from app.protocols.guest_metrics import GUEST_FAMILIES
from app.services.metrics_reference import metrics_page_text
from app.services.vm_series import VM_FAMILIES

ROOT = Path(__file__).resolve().parents[2]
FAMILIES = {
    family.name: family
    for families in (
        AGENT_FAMILIES,
        WORKER_FAMILIES,
        VM_FAMILIES,
        BEAT_FAMILIES,
        SCHEDULER_FAMILIES,
        GUEST_FAMILIES,
    )
    for family in families
}


def rules() -> list[dict[str, Any]]:
    document = yaml.safe_load((ROOT / "compose/prometheus/alerts.yml").read_text())
    return [rule for group in document["groups"] for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    dashboard: dict[str, Any] = json.loads((ROOT / "compose/grafana/vmscaler.json").read_text())
    return list(dashboard["panels"])


def queries() -> Iterator[str]:
    yield from (rule["expr"] for rule in rules())
    for panel in panels():
        yield from (target["expr"] for target in panel.get("targets", ()))


def test_the_page_of_metrics_is_what_the_families_say() -> None:
    page = (ROOT / "docs/metrics.md").read_text()
    assert page == metrics_page_text(), "run: vmscaler metrics reference > docs/metrics.md"


def test_queries_name_only_metrics_that_are_there() -> None:
    named = {name for query in queries() for name in re.findall(r"\b(?:vmscaler|autoscaling)_\w+", query)}
    known = set(FAMILIES)
    for name, family in FAMILIES.items():
        if family.kind == "histogram":
            known |= {f"{name}_bucket", f"{name}_sum", f"{name}_count"}
    assert len(named) > 20
    assert named - known == set()


def test_queries_ask_for_labels_and_values_that_are_there() -> None:
    wrong = []
    for query in queries():
        for name, selectors in re.findall(r"\b((?:vmscaler|autoscaling)_\w+)\{([^}]*)\}", query):
            family = FAMILIES.get(name) or FAMILIES[re.sub(r"_(bucket|sum|count)$", "", name)]
            for label, values in re.findall(r'(\w+)[!=~]+"([^"]*)"', selectors):
                closed = family.labels[label]
                wrong += [value for value in values.split("|") if closed and value not in closed]
    assert wrong == []


def test_every_alert_leads_to_a_place_in_the_runbook() -> None:
    titles = re.findall(r"^## (.+)$", (ROOT / "docs/runbook.md").read_text(), re.MULTILINE)
    places = {re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-") for title in titles}
    led_to = {rule["alert"]: rule["annotations"]["runbook_url"] for rule in rules()}
    assert led_to
    lost = {name for name, url in led_to.items() if url.removeprefix("docs/runbook.md#") not in places}
    assert lost == set()
    assert all(rule["labels"]["severity"] in ("warning", "critical") for rule in rules())


def test_panels_say_what_they_show_and_lie_beside_each_other() -> None:
    taken: dict[tuple[int, int], str] = {}
    for panel in panels():
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        for cell in product(
            range(place["x"], place["x"] + place["w"]), range(place["y"], place["y"] + place["h"])
        ):
            assert taken.setdefault(cell, panel["title"]) == panel["title"]
        if panel["type"] != "row":
            assert panel["description"]
            # Grafana draws no legend without being told to.
            assert panel["options"]["legend"]["showLegend"] is True


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not at hand (Debian: prometheus)")
@pytest.mark.parametrize(
    "words",
    [
        ("check", "config", "prometheus.yml"),
        ("check", "rules", "alerts.yml"),
        ("test", "rules", "alerts.test.yml"),
    ],
    ids=" ".join,
)
def test_promtool_finds_nothing_wrong(words: tuple[str, ...]) -> None:
    done = subprocess.run(
        ["promtool", *words], cwd=ROOT / "compose/prometheus", capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
