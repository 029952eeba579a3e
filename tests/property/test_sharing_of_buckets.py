"""Workers join, leave, are killed, stopped and drained at random, over the real ownership service.

At no moment may two work on a bucket; in the end everyone has a fair share; and no more is moved than the
changes call for.
"""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from app.cluster.lease import LeaseTimes, fair_share
from app.cluster.ring import bucket_names
from app.ports.store import BucketName
from app.services.ownership import LOOK_EVERY_S
from tests.fakes.clock import FakeClock
from tests.fakes.leases import MemoryLeases
from tests.fakes.owners import Owner

TIMES = LeaseTimes(duration_s=6, renew_every_s=1, give_up_after_s=4)
TOTAL = 12
NAMES = [BucketName(name) for name in bucket_names(TOTAL)]
QUIET_S = 60.0


@dataclass
class Process:
    """A worker process; one that is stopped (SIGSTOP) does nothing until it wakes."""

    owner: Owner
    is_stopped: bool = False


class Fleet:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.store = MemoryLeases(self.clock, NAMES, duration_s=TIMES.duration_s)
        self.processes: list[Process] = []
        self.ended: list[Owner] = []
        self.starts = 0
        self.changes = 0

    def join(self) -> None:
        self.starts += 1
        self.changes += 1
        name = f"w{self.starts}"
        self.processes.append(Process(Owner(name, self.store, self.clock, TOTAL, TIMES)))

    def act(self, action: str, who: int) -> None:
        if action == "join" and len(self.processes) < 5:
            self.join()
        elif self.processes and action != "join":
            process = self.processes[who % len(self.processes)]
            self.changes += 1
            self.change(action, process)

    def change(self, action: str, process: Process) -> None:
        agent = process.owner.holder.agent_id
        match action:
            case "leave" if not process.is_stopped:
                process.owner.ownership.release_all()
                self.end(process)
            case "kill":
                self.end(process)
            case "stop":
                process.is_stopped = True
            case "wake":
                process.is_stopped = False
            case "drain":
                self.store.draining ^= {agent}

    def end(self, process: Process) -> None:
        self.processes.remove(process)
        self.ended.append(process.owner)
        self.store.draining.discard(process.owner.holder.agent_id)

    def pass_time(self, seconds: float) -> None:
        for _ in range(round(seconds / LOOK_EVERY_S)):
            for process in self.processes:
                if not process.is_stopped:
                    process.owner.round()
                    self.check()
            self.clock.advance(LOOK_EVERY_S)
            self.check()

    def check(self) -> None:
        owners = [process.owner for process in self.processes]
        for bucket in NAMES:
            assert sum(owner.may_work_on(bucket) for owner in owners) <= 1, f"two may work on {bucket}"

    def moves(self) -> int:
        owners = [*self.ended, *(process.owner for process in self.processes)]
        return sum(what == "acquired" for owner in owners for what, _ in owner.notes)


events = st.tuples(
    st.sampled_from(["join", "join", "leave", "kill", "stop", "wake", "wake", "drain"]),
    st.integers(0, 4),
    st.sampled_from([0.5, 0.5, 1.0, 2.0, 5.0, 9.0]),
)


@settings(max_examples=40, deadline=None)
@given(story=st.lists(events, max_size=25))
def test_never_two_owners_in_the_end_fair_shares_and_few_moves(
    story: list[tuple[str, int, float]],
) -> None:
    fleet = Fleet()
    fleet.join()
    for action, who, seconds in story:
        fleet.act(action, who)
        fleet.pass_time(seconds)
    for process in fleet.processes:
        process.is_stopped = False
    fleet.store.draining.clear()
    if not fleet.processes:
        fleet.join()
    fleet.pass_time(QUIET_S)
    held = [process.owner.ownership.held() for process in fleet.processes]
    assert sorted(bucket for of in held for bucket in of) == NAMES
    assert max(map(len, held)) <= fair_share(TOTAL, len(held))
    moves = fleet.moves()
    # A change moves at most what its worker held, and what is handed over for it.
    assert moves <= TOTAL * (fleet.changes + 2)
    fleet.pass_time(10.0)
    assert fleet.moves() == moves, "buckets move though nobody comes or goes"


@settings(max_examples=12, deadline=None)
@given(pauses=st.lists(st.sampled_from([0.5, 1.0, 1.5]), min_size=3, max_size=8), is_killed=st.booleans())
def test_one_that_comes_and_goes_quickly_moves_nothing_of_the_others(
    pauses: list[float], is_killed: bool
) -> None:
    fleet = Fleet()
    fleet.join()
    fleet.join()
    fleet.pass_time(20)
    before = fleet.moves()
    for pause in pauses:
        fleet.join()
        fleet.pass_time(pause)
        fleet.change("kill" if is_killed else "leave", fleet.processes[-1])
        fleet.pass_time(0.5)
    fleet.pass_time(20)
    # The killed count as live until their heartbeats are old: what they took moves there and back.
    assert fleet.moves() - before <= (2 * TOTAL if is_killed else 0)
