"""What workers, schedulers, beat and simulated fleets publish about themselves, read back for showing."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, ValidationError

from app.errors import InvalidInput
from app.ports.registry import AgentRecord
from app.services.vm_record import ShownText

MAX_FACTS_BYTES = 256 * 1024
"""Of one process; a worker that holds 2,048 buckets says less."""


class _Range(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    min: int
    max: int


class _Facts(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)

    kind: ShownText
    name: ShownText
    identity: ShownText = ""
    address: ShownText | None = None
    dump_address: ShownText | None = None
    url: ShownText | None = None
    started_ms: int | None = None
    version: ShownText = ""
    pid: int | None = None
    buckets: tuple[ShownText, ...] = ()
    vms: int = 0
    counters: dict[ShownText, int | float] = {}
    problems: tuple[ShownText, ...] = ()
    left_alone: tuple[ShownText, ...] = ()
    unreadable: dict[ShownText, ShownText] = {}
    protocol: _Range | None = None
    clock_ms: int | None = None


@dataclass(frozen=True, slots=True)
class AgentRow:
    """A live process of the fleet.

    Attributes:
        kind: worker, scheduler, sim or beat.
        buckets: names of the buckets that a worker holds, as it says.
        age_ms: since its last heartbeat.
        problems: what it says is wrong with it, a sentence each.
        left_alone: some VMs of its buckets that it does not run, since a newer version wrote their records.
        unreadable: (VM, the field's path and what is wrong with it) of VMs of its buckets.
        number: its place in the order of registration.
        protocol: lowest and highest version of the informant's protocol that it speaks; None: it doesn't say.
        dump_address: where a worker serves its state dump; None: it does not.
        is_draining: an operator wants it to hand over everything and take nothing.
        clock_offset_ms: its clock less Redis', as of its last heartbeat; None: it doesn't say.
    """

    agent_id: str
    kind: str
    name: str
    identity: str
    address: str | None
    started_ms: int | None
    version: str
    pid: int | None
    buckets: tuple[str, ...]
    vms: int
    counters: dict[str, int | float]
    problems: tuple[str, ...]
    age_ms: int
    left_alone: tuple[str, ...] = ()
    unreadable: tuple[tuple[str, str], ...] = ()
    number: int = 0
    protocol: tuple[int, int] | None = None
    dump_address: str | None = None
    is_draining: bool = False
    clock_offset_ms: int | None = None


def read_agent(record: AgentRecord, draining: Collection[str] = ()) -> AgentRow:
    """The row of one registered process; facts that can't be read leave a row of kind `unreadable`.

    Args:
        draining: agent ids that are to hand over everything.
    """
    try:
        if len(record.facts) > MAX_FACTS_BYTES:
            raise InvalidInput("facts", "too long")
        facts = _Facts.model_validate_json(record.facts)
    except (ValidationError, InvalidInput):
        facts = _Facts(kind="unreadable", name=record.agent_id, problems=("its facts can't be read",))
    return AgentRow(
        agent_id=record.agent_id,
        kind=facts.kind,
        name=facts.name,
        identity=facts.identity,
        address=facts.address or facts.url,
        started_ms=facts.started_ms,
        version=facts.version,
        pid=facts.pid,
        buckets=facts.buckets,
        vms=facts.vms,
        counters=facts.counters,
        problems=facts.problems,
        age_ms=record.age_ms,
        left_alone=facts.left_alone,
        unreadable=tuple(facts.unreadable.items()),
        number=record.number,
        protocol=None if facts.protocol is None else (facts.protocol.min, facts.protocol.max),
        dump_address=facts.dump_address,
        is_draining=record.agent_id in draining,
        clock_offset_ms=_offset(facts.clock_ms, record.seen_ms),
    )


def _offset(clock_ms: int | None, seen_ms: int | None) -> int | None:
    return None if clock_ms is None or seen_ms is None else clock_ms - seen_ms
