"""The page of all metrics, written from their families (`docs/metrics.md`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from app.ports.agent_metrics import AGENT_FAMILIES
from app.ports.own_metrics import BEAT_FAMILIES, SCHEDULER_FAMILIES, WORKER_FAMILIES
from app.protocols.guest_metrics import GUEST_FAMILIES
from app.protocols.metric_families import Family
from app.services.vm_series import VM_FAMILIES

_INTRODUCTION = """\
# Metrics

<!-- Written by `vmscaler metrics reference`; change the families there, not this page. -->

Each process answers `GET /metrics` in the text format of Prometheus: workers and beat on the server of `web`
(a worker's port is `web.port` and the number at the end of its name; see `vmscaler agents`), the built-in
scheduler on its own port, the daemon in each VM on the port of its metrics page
([guest.md](guest.md)). Who may ask is said in `security.servers`. All counts begin at 0 with the process.

Labels have closed sets of values, so no peer can make series; what is in none of them counts as `other`.
An error's text is in the log, never in a label. A worker makes its page in stretches of about 2 ms, between
which everything else has its turn, and once for all who ask at the same time. What it costs:
[benchmarks.md](benchmarks.md#the-metrics-page).

The alert rules are in `compose/prometheus/alerts.yml`, each with a link to the [runbook](runbook.md); a
dashboard for Grafana is `compose/grafana/vmscaler.json`. `docker compose` starts both with the fleet, see
[operations.md](operations.md#prometheus-and-grafana).
"""

_SECTIONS: tuple[tuple[str, str, tuple[Family, ...]], ...] = (
    (
        "The agent's known names, of workers",
        "Dashboards and rules that were made for the agent go on working.",
        AGENT_FAMILIES,
    ),
    ("Workers", "", WORKER_FAMILIES),
    (
        "Each VM, of the worker that owns it",
        "Left out with `prometheus.perVm: false`. A VM's series go with it, or with its bucket: after a "
        "hand-over its new owner has them. Their first labels are the VM's own names; a size that is not "
        "known has no series.",
        VM_FAMILIES,
    ),
    ("Beat", "", BEAT_FAMILIES),
    ("The built-in scheduler", "", SCHEDULER_FAMILIES),
    (
        "The daemon in a VM",
        "Of `vmscaler guest run`, behind the guest's own load and memory under node_exporter's names.",
        GUEST_FAMILIES,
    ),
)


def metrics_page_text() -> str:
    """The whole page, Markdown."""
    return "\n".join([_INTRODUCTION, *(_section(*each) for each in _SECTIONS)])


def _section(title: str, text: str, families: Iterable[Family]) -> str:
    rows = "\n".join(_row(family) for family in families)
    told = f"{text}\n\n" if text else ""
    return f"## {title}\n\n{told}| name | kind | labels | what |\n|---|---|---|---|\n{rows}\n"


def _row(family: Family) -> str:
    return f"| `{family.name}` | {family.kind} | {'<br>'.join(_labels(family))} | {family.text} |"


def _labels(family: Family) -> Iterator[str]:
    for label, values in family.labels.items():
        yield f"`{label}`" + (": " + ", ".join(values) if values else "")
