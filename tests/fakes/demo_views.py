"""Views of a fleet as the demo's screen gets them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from app.cli.screen import DemoFacts
from app.core.model import Metrics, Millis, Mode
from app.core.resources import Resources, resources
from app.ports.store import BucketName, FencingToken, Holder, LeaseRow
from app.ports.vm import VmKey
from app.services.agent_facts import AgentRow
from app.services.fleet_view import FleetView, Problem, VmRow, add_up
from app.services.process_keeping import ChildState
from app.services.vm_record import LastStep, Sample, Size

NOW = Millis(1_700_049_600_000)
GIB = 1 << 30
BUCKET = "autoscaler-bucket-03-of-16"


def vm_row(key: str = "sim/web-001", **changes: object) -> VmRow:
    """A VM at rest with 1 CPU and 4 GiB, polled once."""
    row = VmRow(
        key=VmKey(key),
        bucket=BUCKET,
        worker="worker1",
        node="sim-node-1",
        mode=Mode.SCALE,
        mode_by="platform",
        mode_reason="",
        pause=None,
        fixed=None,
        status="ok",
        status_reason="",
        min=resources(250, 1),
        max=resources(4000, 8),
        use=resources(1000, 4),
        observed=resources(1000, 4),
        desired=resources(1000, 4),
        slot_bytes=GIB,
        metrics=Metrics(0.9, 0.8, 1e9),
        has_scheduler=True,
        permit=resources(1000, 4),
        sample=Sample(at_ms=NOW - 500, tried_ms=NOW - 500),
        sample_age_ms=500,
        operation=None,
        failing=None,
        last=None,
        why="load1 0.90 / 0.9 = 1.00 CPUs → 1.0 CPU",
        counters={"polls": 1},
    )
    return replace(row, **changes)  # type: ignore[arg-type]


def last_step(
    kind: str, before: Resources, after: Resources, *, ago_ms: int = 1_000, why: str = ""
) -> LastStep:
    """The last thing that happened to a VM's size."""
    sizes = [Size(cpu_m=size.cpu, mem=size.mem) for size in (before, after)]
    return LastStep.model_validate(
        {"at_ms": NOW - ago_ms, "kind": kind, "from": sizes[0], "to": sizes[1], "why": why}
    )


def fleet_view(rows: Sequence[VmRow], problems: Sequence[str] = ()) -> FleetView:
    """A fleet of one worker that holds its one bucket."""
    worker = AgentRow(
        agent_id="id-1",
        kind="worker",
        name="worker1",
        identity="worker1_127.0.0.1",
        address=None,
        started_ms=NOW - 60_000,
        version="0.1.0",
        pid=4711,
        buckets=(BUCKET,),
        vms=len(rows),
        counters={},
        problems=(),
        age_ms=300,
    )
    lease = LeaseRow(BucketName(BUCKET), Holder("worker1_127.0.0.1", "id-1"), FencingToken(7), 2_500)
    totals, counters = add_up(rows)
    found = tuple(Problem("agent", "", text) for text in problems)
    return FleetView(NOW, tuple(rows), (worker,), (lease,), totals, counters, NOW, found)


def child(name: str, *, pid: int | None = 4711, restarts: int = 0, last_end: str = "") -> ChildState:
    """A child of the demo."""
    return ChildState(name, pid, restarts, last_end, Path(f"/run/demo/logs/{name}.log"))


def demo_facts(view: FleetView | None, **changes: object) -> DemoFacts:
    """What the screen shows after 34 s."""
    facts = DemoFacts(
        view=view,
        absence="Redis gives no answer",
        children=(child("redis"), child("worker1")),
        completed={"upscales": 3, "downscales": 1},
        flower_url="http://127.0.0.1:5555",
        logs=Path("/run/demo/logs"),
        elapsed_s=34.0,
        limit_s=None,
    )
    return replace(facts, **changes)  # type: ignore[arg-type]
