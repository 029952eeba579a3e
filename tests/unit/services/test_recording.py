"""Recordings at a worker: what replays, when they begin and end, and what a sink that fails costs."""

from __future__ import annotations

import json
from collections.abc import Iterable

import pytest

from app.adapters.green import GreenConcurrency
from app.core import events
from app.core.events import Event
from app.core.model import Metrics, Millis, Mode
from app.core.resources import resources
from app.errors import PeerRefused, StoreUnavailable
from app.ports.recording import RecordingEnd
from app.ports.store import BucketName, Intent
from app.ports.vm import VmKey
from app.services.event_script import Script, read_script
from app.services.recorder import Recorder
from app.services.recording import MAX_PENDING, Asked, FileRules, Recordings, Tape
from app.services.replay import differences, run_script
from app.services.runner import Runner
from app.services.script_writing import ScriptWriter
from tests.core_builders import UNIT, a_vm
from tests.fakes.clock import FakeClock
from tests.service_builders import BUCKET, a_runner, a_virtual_machine, an_intent, load_of

KEY = VmKey("default/db")


class MemorySink:
    """Keeps scripts; fails while `problem` is set."""

    def __init__(self) -> None:
        self.scripts: dict[str, list[bytes]] = {}
        self.ended: RecordingEnd | None = None
        self.problem: Exception | None = None

    def append(self, script: str, steps: bytes) -> None:
        if self.problem is not None:
            raise self.problem
        self.scripts.setdefault(script, []).append(steps)

    def end(self, script: str, reason: RecordingEnd) -> None:
        if self.problem is not None:
            raise self.problem
        self.ended = reason

    def lines(self) -> list[Script]:
        return [
            read_script({"id": script, "steps": json.loads(b"[" + b",".join(parts) + b"]")})
            for script, parts in self.scripts.items()
        ]

    def differing(self) -> list[str]:
        return [
            line for script in self.lines() for answer in run_script(script) for line in differences(answer)
        ]

    @property
    def ops(self) -> list[str]:
        return [step.op for script in self.lines() for step in script.steps]


class MemoryPlaces:
    """Streams and files in memory: every sink that was asked for, by VM and recording."""

    def __init__(self) -> None:
        self.sinks: dict[tuple[str, str], list[MemorySink]] = {}

    def sink(self, bucket: BucketName, key: VmKey, recording: str) -> MemorySink:
        return self._new(key, recording)

    def _new(self, key: VmKey, recording: str) -> MemorySink:
        sink = MemorySink()
        self.sinks.setdefault((key, recording), []).append(sink)
        return sink


class MemoryFiles:
    def __init__(self, places: MemoryPlaces) -> None:
        self.places = places

    def sink(self, key: VmKey) -> MemorySink:
        return self.places._new(key, "files")


class Desk:
    """One worker's recordings, and a VM."""

    def __init__(self, *patterns: str) -> None:
        self.clock = FakeClock()
        self.places = MemoryPlaces()
        rules = FileRules(patterns, MemoryFiles(self.places), 2**20, 3_600.0) if patterns else None  # type: ignore[arg-type]
        self.recordings = Recordings("worker1", self.clock, GreenConcurrency(), self.places, rules)  # type: ignore[arg-type]
        self.runner = a_runner(self.clock)

    def tick(self, *intents: Intent) -> None:
        self.recordings.take_up(BUCKET, [self.runner], intents)

    def sinks(self, recording: str = "one") -> list[MemorySink]:
        return self.places.sinks.get((KEY, recording), [])


def asked(recording: str = "one", max_bytes: int = 2**20, **changes: object) -> Intent:
    return an_intent(f"record:{recording}", str(max_bytes), intent_id=recording, **changes)


def some_life(runner: Runner, clock: FakeClock, times: int = 3) -> None:
    for cpus in range(1, times + 1):
        clock.advance(1.5)
        runner.take_sample(load_of(cpus / 3))
        runner.decide()


NOW = Millis(1_700_000_005_000)
EVERY_EVENT: list[Event] = [
    events.UpdatedVm(a_vm(max=resources(9_000, 36))),
    events.MetricsArrived(Metrics(0.1 + 0.2, 1 / 3, 1e9 / 7)),
    events.MetricsArrived(None),
    events.ModeChanged(Mode.OBSERVE, UNIT),
    events.ModeChanged(Mode.SCALE, None),
    events.PluginNewScheduler(),
    events.PluginGone(),
    events.PluginStarting(NOW, resources(2_000, 8)),
    events.PluginFailed(NOW),
    events.PluginSuccessful(NOW, resources(2_000, 8), UNIT),
    events.MonitorReset(),
    events.MonitorActive(True),
    events.MonitorUpscaleRequested(NOW, cpu=False, memory=True),
    events.MonitorStartingUpscale(NOW, resources(2_000, 8)),
    events.MonitorStartingDownscale(NOW, resources(500, 2)),
    events.MonitorUpscaleSuccessful(),
    events.MonitorUpscaleFailed(NOW),
    events.MonitorDownscaleAllowed(),
    events.MonitorDownscaleDenied(NOW),
    events.MonitorDownscaleFailed(NOW),
    events.PlatformStarting(resources(2_000, 8)),
    events.PlatformSuccessful(),
    events.PlatformFailed(NOW),
    events.PlatformObserved(NOW, resources(750, 3)),
]


def recorded(happenings: Iterable[Event]) -> MemorySink:
    clock, sink = FakeClock(), MemorySink()
    runner = a_runner(clock)
    clock.advance(4)
    tape = Tape(runner, sink, ScriptWriter("t"), Asked(None, None))
    runner.recorder = Recorder()
    runner.recorder.listeners.append(tape)
    for event in happenings:
        clock.advance(1)
        runner.apply(event)
        runner.decide()
    tape.write(lambda: None)
    return sink


@pytest.mark.parametrize("event", EVERY_EVENT, ids=lambda event: type(event).__name__)
def test_every_kind_of_event_replays_without_difference_taken_or_refused(event: Event) -> None:
    sink = recorded([event, event])
    assert sink.differing() == []
    (script,) = sink.lines()
    assert [type(step.event) for step in script.steps if step.event is not None] == [type(event)] * 2


def test_all_kinds_of_events_one_after_the_other_replay_without_difference() -> None:
    sink = recorded(EVERY_EVENT)
    assert sink.differing() == []
    assert len([op for op in sink.ops if op not in ("new", "next")]) == len(EVERY_EVENT)


def test_there_is_a_test_for_every_event_of_the_core() -> None:
    assert {type(event) for event in EVERY_EVENT} == set(events.Event.__args__)  # type: ignore[attr-defined]


def test_an_event_that_the_schema_cannot_carry_leads_to_a_new_script_or_to_none_of_it() -> None:
    sink = recorded([events.MetricsArrived(Metrics(float("nan"), 1.0, 1.0)), EVERY_EVENT[0]])
    assert sink.differing() == []
    assert sink.ops == ["new", "new", "updated_vm"]


def test_a_state_that_the_schema_cannot_carry_is_left_out_until_it_can_be_told() -> None:
    huge = events.MetricsArrived(Metrics(1e39, 1.0, 1.0))
    sink = recorded([huge, EVERY_EVENT[0], EVERY_EVENT[1], EVERY_EVENT[2]])
    assert sink.differing() == []
    assert sink.ops == ["new", "new", "metrics"]


def test_a_recording_from_the_very_beginning_has_no_snapshot_and_a_later_one_has() -> None:
    clock, sink = FakeClock(), MemorySink()
    runner = Runner(a_virtual_machine(), BUCKET, a_runner(clock).settings, clock)
    for _ in range(2):
        tape = Tape(runner, sink, ScriptWriter("t"), Asked(None, None))
        tape.write(lambda: None)
        runner.apply(events.PluginNewScheduler())
        clock.advance(1)
    first, second = [json.loads(parts[0])["event"] for parts in sink.scripts.values()]
    assert "snapshot" not in first
    assert second["snapshot"]["plugin"]["alive"] is True


def test_an_event_made_before_a_wait_is_as_of_the_last_time_that_the_vm_has_seen() -> None:
    clock = FakeClock()
    runner = a_runner(clock)
    early = runner.now()
    runner.apply(events.MonitorStartingDownscale(early, resources(500, 2)))
    clock.advance(3)
    late = runner.now()
    runner.apply(events.MonitorDownscaleFailed(early))
    assert runner.state.monitor.downscale_failed_at == late


def test_a_script_that_is_long_enough_goes_on_in_another_one() -> None:
    clock, sink = FakeClock(), MemorySink()
    runner = a_runner(clock)
    tape = Tape(runner, sink, ScriptWriter("t", max_bytes=3_000), Asked(None, None))
    runner.recorder = Recorder()
    runner.recorder.listeners.append(tape)
    some_life(runner, clock, 20)
    tape.write(lambda: None)
    assert len(sink.scripts) > 2
    assert sink.differing() == []
    seen = [step.now for script in sink.lines() for step in script.steps]
    assert seen == sorted(seen)


def test_a_script_that_covers_enough_time_goes_on_in_another_one() -> None:
    clock = FakeClock()
    runner = a_runner(clock)
    writer = ScriptWriter("t", max_ms=4_000)
    sink = MemorySink()
    tape = Tape(runner, sink, writer, Asked(None, None))
    runner.recorder = Recorder()
    runner.recorder.listeners.append(tape)
    some_life(runner, clock, 6)
    tape.write(lambda: None)
    assert len(sink.scripts) == 3


def test_a_recording_begins_with_its_intent_and_ends_with_it() -> None:
    desk = Desk()
    desk.tick(asked())
    some_life(desk.runner, desk.clock)
    desk.recordings.flush()
    desk.tick()
    desk.recordings.flush()
    (sink,) = desk.sinks()
    assert sink.ended is RecordingEnd.OVER
    assert sink.ops == ["new", "metrics", "metrics", "metrics"]
    assert sink.differing() == []
    assert desk.runner.recorder is None


def test_a_recording_ends_by_itself_at_its_time_which_may_be_moved() -> None:
    desk = Desk()
    now = desk.clock.wall_ms()
    desk.tick(asked(until_ms=now + 1_000))
    desk.tick(asked(until_ms=now + 3_000))
    desk.clock.advance(2)
    desk.recordings.flush()
    assert desk.sinks()[0].ended is None
    desk.clock.advance(2)
    desk.recordings.flush()
    assert desk.sinks()[0].ended is RecordingEnd.OVER
    desk.tick(asked(until_ms=now + 3_000))
    assert len(desk.sinks()) == 1


def test_a_runner_that_goes_ends_its_part_and_the_next_one_begins_another() -> None:
    desk = Desk()
    desk.tick(asked())
    some_life(desk.runner, desk.clock)
    desk.runner.is_closed = True
    desk.recordings.flush()
    desk.runner = a_runner(desk.clock)
    desk.tick(asked())
    some_life(desk.runner, desk.clock)
    desk.recordings.flush()
    first, second = desk.sinks()
    assert first.ended is RecordingEnd.OWNER
    assert second.ended is None
    assert first.differing() == second.differing() == []
    assert first.lines()[0].script_id != second.lines()[0].script_id


def test_two_recordings_of_one_vm_do_not_disturb_each_other() -> None:
    desk = Desk()
    desk.tick(asked("one"))
    some_life(desk.runner, desk.clock)
    desk.tick(asked("one"), asked("two"))
    some_life(desk.runner, desk.clock)
    desk.tick(asked("two"))
    desk.recordings.flush()
    assert [len(desk.sinks(name)[0].ops) for name in ("one", "two")] == [7, 4]
    assert desk.sinks("one")[0].differing() == desk.sinks("two")[0].differing() == []


def test_more_recordings_of_one_vm_than_allowed_are_not_begun() -> None:
    desk = Desk()
    desk.tick(*[asked(str(number)) for number in range(9)])
    assert len(desk.places.sinks) == 4


def test_a_recording_that_has_its_size_ends_and_is_not_begun_again() -> None:
    desk = Desk()
    desk.tick(asked(max_bytes=4_000))
    for _ in range(5):
        some_life(desk.runner, desk.clock)
        desk.recordings.flush()
        desk.tick(asked(max_bytes=4_000))
    (sink,) = desk.sinks()
    assert sink.ended is RecordingEnd.FULL
    assert sum(len(part) for parts in sink.scripts.values() for part in parts) <= 4_000
    assert sink.differing() == []
    assert desk.runner.recorder is None


def test_a_store_that_is_away_for_a_while_costs_nothing() -> None:
    desk = Desk()
    desk.tick(asked())
    (sink,) = desk.sinks()
    sink.problem = StoreUnavailable("redis", "no answer")
    some_life(desk.runner, desk.clock)
    desk.recordings.flush()
    some_life(desk.runner, desk.clock)
    desk.recordings.flush()
    sink.problem = None
    desk.recordings.flush()
    assert len(sink.ops) == 7
    assert sink.differing() == []


def test_a_store_that_is_away_for_long_loses_the_recording_with_a_mark_and_the_runner_goes_on() -> None:
    desk = Desk()
    desk.tick(asked())
    (sink,) = desk.sinks()
    sink.problem = StoreUnavailable("redis", "no answer")
    for _ in range(MAX_PENDING + 10):
        desk.runner.take_sample(load_of(1))
    assert desk.runner.counters.polls == MAX_PENDING + 10
    desk.recordings.flush()
    sink.problem = None
    desk.recordings.flush()
    assert sink.ended is RecordingEnd.LOST
    assert desk.runner.recorder is None


def test_a_recording_that_nobody_reads_is_ended_with_a_mark() -> None:
    desk = Desk()
    desk.tick(asked())
    (sink,) = desk.sinks()
    sink.problem = PeerRefused("redis", "nobody reads the recording")
    desk.recordings.flush()
    sink.problem = None
    desk.recordings.flush()
    assert sink.ended is RecordingEnd.LOST
    assert desk.runner.recorder is None


def test_the_configurations_patterns_say_who_is_recorded_to_files() -> None:
    for pattern, count in (("default/*", 1), ("*", 1), ("other/*", 0)):
        desk = Desk(pattern)
        desk.tick()
        assert len(desk.sinks("files")) == count


def test_a_full_disk_is_logged_once_and_tried_again_later(caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk("default/*")
    for round_number in range(1, 4):
        desk.tick()
        assert len(desk.sinks("files")) == round_number
        desk.sinks("files")[-1].problem = PeerRefused("/var/x", "No space left on device")
        some_life(desk.runner, desk.clock)
        desk.recordings.flush()
        desk.tick()
        assert len(desk.sinks("files")) == round_number
        assert desk.runner.recorder is None
        desk.clock.advance(61)
    assert sum("recording not written" in record.message for record in caplog.records) == 1


def test_a_worker_that_stops_writes_what_it_has() -> None:
    desk = Desk("*")
    desk.tick(asked())
    some_life(desk.runner, desk.clock)
    desk.recordings.close()
    for sink in (desk.sinks()[0], desk.sinks("files")[0]):
        assert sink.ended is RecordingEnd.OWNER
        assert len(sink.ops) == 4
        assert sink.differing() == []


def test_an_observed_vm_is_recorded_as_well() -> None:
    desk = Desk()
    desk.runner.update_vm(a_virtual_machine(mode=Mode.OBSERVE))
    desk.tick(asked())
    some_life(desk.runner, desk.clock)
    desk.runner.update_vm(a_virtual_machine())
    desk.recordings.flush()
    (sink,) = desk.sinks()
    assert sink.differing() == []
    assert "mode" in sink.ops
