"""The fleet at one moment, as an operator looks at it: a row per VM, processes, leases, what is wrong.

Built from what Redis holds; nothing here asks a VM or a worker. Plain facts: wording is the viewer's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from app.core.model import Metrics, Millis, Mode
from app.core.resources import Resources
from app.ports.store import LeaseRow
from app.ports.vm import VmKey
from app.services.agent_facts import AgentRow
from app.services.vm_record import Failing, Fixed, LastStep, Operation, Pause, Sample


@dataclass(frozen=True, slots=True)
class VmRow:
    """One VM.

    Attributes:
        worker: name of the worker that wrote the record last; `holder` of its bucket's lease may be newer.
        use: size last asked for at the platform ("now"); `observed` is the real one, None if unknown.
        desired: what the core wants; None before the first decision.
        fixed: size that an operator has fixed by hand; None: it is scaled by its load.
        metrics: last good sample, None before the first.
        permit: the most that the scheduler lets it use; None before it was asked.
        why: the last decision and what stands in its way, in a sentence.
        sample_age_ms: age of the last good sample; None if there never was one.
        failing: resizes that failed in a row; None after one that was observed.
        counters: since the VM was added.
    """

    key: VmKey
    bucket: str
    worker: str
    node: str
    mode: Mode
    mode_by: str
    mode_reason: str
    pause: Pause | None
    fixed: Fixed | None
    status: str
    status_reason: str
    min: Resources
    max: Resources
    use: Resources
    observed: Resources | None
    desired: Resources | None
    slot_bytes: int
    metrics: Metrics | None
    has_scheduler: bool
    permit: Resources | None
    sample: Sample
    sample_age_ms: int | None
    operation: Operation | None
    failing: Failing | None
    last: LastStep | None
    why: str
    counters: Mapping[str, int]

    @property
    def is_short(self) -> bool:
        """Whether it is to have more than the scheduler lets it use."""
        if self.mode is not Mode.SCALE or self.desired is None or self.permit is None:
            return False
        return self.desired.has_field_above(self.permit)

    @property
    def real_size(self) -> Resources:
        """The observed size, or the one asked for while none was observed."""
        return self.use if self.observed is None else self.observed


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that needs a look.

    Attributes:
        code: stable word for scripts: no-workers, all-drained, free-buckets, leases-unknown, ticks-stopped,
            no-beat, no-scheduler, bucket-total, unreadable, unreadable-vm, vm-stuck, vm-errored, vm-panicked,
            not-applied, old-sample, agent.
        subject: the VM, bucket or process; empty for the whole fleet.
        text: a sentence.
    """

    code: str
    subject: str
    text: str


@dataclass(frozen=True, slots=True)
class Totals:
    """Numbers over all readable VMs; sizes are sums of what is really in use and of what is desired."""

    vms: int
    scaled: int
    observed: int
    paused: int
    fixed: int
    resizing: int
    short: int
    cpu_use_m: int
    cpu_desired_m: int
    mem_use_bytes: int
    mem_desired_bytes: int


@dataclass(frozen=True, slots=True)
class FleetView:
    """Everything that `status`, `vm list` and the demo's screen show.

    Attributes:
        vms: by key.
        agents: live processes, by kind and name; workers among them.
        leases: one row per bucket, by name.
        counters: sums of the VMs' counters.
        last_poll_ms: when any VM was polled last; None if none ever was.
        problems: the gravest first; empty means that nothing needs a look.
    """

    now_ms: Millis
    vms: tuple[VmRow, ...]
    agents: tuple[AgentRow, ...]
    leases: tuple[LeaseRow, ...]
    totals: Totals
    counters: Mapping[str, int]
    last_poll_ms: int | None
    problems: tuple[Problem, ...]

    @property
    def workers(self) -> tuple[AgentRow, ...]:
        """The live workers."""
        return tuple(agent for agent in self.agents if agent.kind == "worker")

    @property
    def is_healthy(self) -> bool:
        """Whether nothing needs a look."""
        return not self.problems


def add_up(rows: Iterable[VmRow]) -> tuple[Totals, dict[str, int]]:
    """The totals and the sums of the counters."""
    rows = list(rows)
    counters: dict[str, int] = {}
    for row in rows:
        for name, value in row.counters.items():
            counters[name] = counters.get(name, 0) + value
    wanted = [row.desired or row.real_size for row in rows]
    totals = Totals(
        vms=len(rows),
        scaled=sum(row.mode is Mode.SCALE for row in rows),
        observed=sum(row.mode is Mode.OBSERVE for row in rows),
        paused=sum(row.pause is not None for row in rows),
        fixed=sum(row.fixed is not None for row in rows),
        resizing=sum(row.operation is not None for row in rows),
        short=sum(row.is_short for row in rows),
        cpu_use_m=sum(row.real_size.cpu for row in rows),
        cpu_desired_m=sum(size.cpu for size in wanted),
        mem_use_bytes=sum(row.real_size.mem * row.slot_bytes for row in rows),
        mem_desired_bytes=sum(size.mem * row.slot_bytes for size, row in zip(wanted, rows, strict=True)),
    )
    return totals, counters
