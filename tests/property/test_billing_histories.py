"""Whatever happens to workers, clocks, platform, Redis, sinks: each second is billed once, none is lost."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from app.errors import PeerRefused, PeerTimedOut
from tests.billing_judge import billed, differences, journal_sums, out_of_order
from tests.billing_world import ACTIVE, CPU, BillingWorld

NAMES = st.sampled_from(["a", "b", "c"])
STEPS = st.one_of(
    st.tuples(st.just("run"), st.integers(1, 60_000)),
    st.tuples(st.just("run"), st.just(24_000)),
    st.tuples(st.just("push"), st.none()),
    st.tuples(st.just("cpu"), st.tuples(NAMES, st.one_of(st.none(), st.integers(0, 64_000)))),
    st.tuples(st.just("delete"), NAMES),
    st.tuples(st.just("recreate"), NAMES),
    st.tuples(st.just("endpoint"), NAMES),
    st.tuples(st.just("unreadable"), st.one_of(st.none(), NAMES)),
    st.tuples(st.just("die"), st.integers(0, 6)),
    st.tuples(st.just("move"), st.booleans()),
    st.tuples(st.just("clock"), st.integers(-7_200, 7_200)),
    st.tuples(st.just("platform"), st.booleans()),
    st.tuples(st.just("redis"), st.booleans()),
    st.tuples(st.just("refuse"), st.tuples(st.integers(0, 1), st.sampled_from(["no", "early", "late"]))),
    st.tuples(st.just("lose"), st.integers(0, 2)),
    st.tuples(st.just("zombie"), st.none()),
)


class History:
    """Carries steps out; VMs are made anew with other uids, endpoints have one VM each."""

    def __init__(self, *, max_waiting: int) -> None:
        self.world = BillingWorld(max_waiting=max_waiting, sinks=2)
        self.number = 0
        self.cpus: dict[str, int | None] = {}
        self.ids: dict[str, tuple[str, str]] = {}
        for name in ("a", "b"):
            self.cpus[name] = 1_000
            self.give_ids(name)

    def give_ids(self, name: str, *, uid: str | None = None) -> None:
        self.number += 1
        self.ids[name] = (uid or f"uid-{self.number}", f"ep-{self.number}")
        self.show(name)

    def show(self, name: str) -> None:
        uid, endpoint = self.ids[name]
        self.world.put_vm(name, cpu=self.cpus.get(name), uid=uid, endpoint=endpoint)

    def do(self, what: str, how: object) -> None:
        world = self.world
        match what, how:
            case "run", int(millis):
                world.clock.advance(millis / 1000)
                world.collect()
            case "push", _:
                world.push()
            case "cpu", (str(name), int() | None as cpu):
                self.cpus[name] = cpu
                if name in self.ids:
                    self.show(name)
            case "delete", str(name):
                world.vms.pop(name, None)
                self.ids.pop(name, None)
            case "recreate", str(name):
                self.give_ids(name)
            case "endpoint", str(name) if name in self.ids:
                self.give_ids(name, uid=self.ids[name][0])
            case "unreadable", name:
                world.unreadable = () if name is None else ((f"default/{name}", "no such field"),)
            case "die", int(moments):
                world.dies_at = moments
            case "lose", int(answers):
                world.loses_answers = answers
            case "move", is_quiet:
                if not is_quiet:
                    world.worker.guards.is_lost = True
                world.take_over()
            case "clock", int(seconds):
                world.clock.step_wall(seconds)
            case "platform", bool(is_away):
                world.is_platform_away = is_away
            case "redis", bool(is_away):
                world.store.is_away = is_away
            case "refuse", (int(sink), str(when)):
                world.sinks[sink].refuse = PeerRefused("sink", "no") if when == "early" else None
                world.sinks[sink].refuse_late = PeerTimedOut("sink", "500") if when == "late" else None
            case "zombie", _:
                earlier = world.worker
                world.take_over()
                world.clock.advance(1)
                world.collect(earlier)
                world.push(earlier)

    def finish(self) -> None:
        for name in list(self.ids):
            self.show(name)
        self.world.unreadable = ()
        self.world.drain()


@settings(max_examples=300, deadline=None)
@given(st.lists(STEPS, max_size=40), st.sampled_from([4, 1_000]))
def test_the_events_of_any_history_are_the_used_seconds_each_once(
    steps: list[tuple[str, object]], max_waiting: int
) -> None:
    history = History(max_waiting=max_waiting)
    for what, how in steps:
        history.do(what, how)
    history.finish()
    world = history.world
    used = journal_sums(world.journal.lines, world.last_steps())
    for sink in world.sinks:
        assert differences(sink.events, used, cpu=CPU, active=ACTIVE) == []
        assert out_of_order(sink.events) == []
    assert all(not outbox for outbox in world.store.outboxes.values())


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 20_000), st.integers(0, 8)), min_size=1, max_size=30))
def test_a_vm_that_is_always_there_is_billed_from_its_first_note_to_its_last(
    lives: list[tuple[int, int]],
) -> None:
    world = BillingWorld()
    world.put_vm(cpu=2_500, endpoint="ep")
    world.collect()
    begun = world.clock.wall_ms()
    for index, (millis, moments) in enumerate(lives):
        world.clock.advance(millis / 1000)
        # The next one looks before the gap is too long.
        world.dies_at = moments if index % 2 else None
        world.collect()
        world.push()
    world.dies_at = None
    world.clock.advance(1)
    world.collect()
    world.drain()
    seconds = (world.clock.wall_ms() - begun) / 1000
    sums = billed(world.sinks[0].events)
    assert abs(sums["ep", ACTIVE] - seconds) <= 0.501
    assert abs(sums["ep", CPU] - 2.5 * seconds) <= 0.51
