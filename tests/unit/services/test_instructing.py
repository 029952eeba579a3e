import json

from app.core.model import Mode
from app.ports.vm import VmKey
from app.services.instructing import Author, Instruction
from tests.fakes.shown_fleet import BUCKETS, NOW, ShownFleet, ShownIntents, bucket_of, instructing

ADA = Author("ada@host", "kernel upgrade")
BOB = Author("bob@host", "done")
A, B = VmKey("ns/a"), VmKey("ns/b")
SIZE = {"cpu_m": 1000, "mem": 4}


def record(key: str, *, pause: str | None = None, mode: str | None = None) -> dict[str, object]:
    return {
        "v": 1,
        "key": key,
        "bucket": bucket_of(VmKey(key)),
        "worker": "w1",
        "snapshot": {},
        "core_now_ms": NOW,
        "platform": {"use": SIZE, "min": SIZE, "max": SIZE, "slot_bytes": 1 << 30},
        "mode": "scale",
        "decision": {"at_ms": NOW},
        "intents": {"pause": pause, "mode": mode},
    }


def fleet_of(*keys: str) -> ShownFleet:
    fleet = ShownFleet()
    for key in keys:
        fleet.add(record(key))
    return fleet


def owner(fleet: ShownFleet, done: Instruction) -> None:
    """What an owner does at its tick: every record shows the intent in force."""
    for key in done.place:
        counted = done.in_force(key)
        shown = None if counted is None else counted.intent_id
        fleet.add(record(key, **{done.kind: shown}))


def test_a_pause_is_recorded_with_author_reason_and_end() -> None:
    fleet = fleet_of(A)
    done = instructing(fleet).pause(A, bucket_of(A), for_ms=60_000, author=ADA)
    (intent,) = ShownIntents(fleet).list(bucket_of(A))
    assert done.written == (intent,)
    assert (intent.target, intent.kind, intent.value) == (A, "pause", "on")
    assert (intent.author, intent.reason, intent.until_ms) == ("ada@host", "kernel upgrade", NOW + 60_000)


def test_a_pause_counts_as_taken_up_when_the_record_shows_it() -> None:
    fleet = fleet_of(A)
    done = instructing(fleet).pause(A, bucket_of(A), for_ms=None, author=ADA)
    fleet.on_sleep = lambda: owner(fleet, done)
    assert instructing(fleet).wait(done) == ()
    assert 0 < fleet.slept < 1


def test_a_wish_that_no_owner_reads_is_waited_for_five_seconds_at_most() -> None:
    fleet = fleet_of(A)
    done = instructing(fleet).pause(A, bucket_of(A), for_ms=None, author=ADA)
    assert instructing(fleet).wait(done) == (A,)
    assert 5 <= fleet.slept < 5.5


def test_an_earlier_pause_in_the_record_is_not_taken_for_the_new_one() -> None:
    fleet = fleet_of(A)
    first = instructing(fleet).pause(A, bucket_of(A), for_ms=None, author=ADA)
    owner(fleet, first)
    second = instructing(fleet).pause(A, bucket_of(A), for_ms=1000, author=BOB)
    assert instructing(fleet).wait(second, 0.5) == (A,)


def test_a_record_that_cannot_be_read_is_not_taken_for_a_yes() -> None:
    fleet = fleet_of(A)
    fleet.records[bucket_of(A)][A] = b"\xff not JSON"
    done = instructing(fleet).pause(A, bucket_of(A), for_ms=None, author=ADA)
    assert instructing(fleet).wait(done, 0.5) == (A,)


def test_a_pause_of_all_stands_in_every_bucket_as_one_intent() -> None:
    fleet = fleet_of(A, B)
    done = instructing(fleet).pause_all(BUCKETS, for_ms=None, author=ADA)
    assert set(done.place) == {A, B}
    assert len(done.standing) == 1
    assert all(len(ShownIntents(fleet).list(bucket)) == 1 for bucket in BUCKETS)
    owner(fleet, done)
    assert instructing(fleet).wait(done) == ()


def test_a_vm_with_a_pause_of_its_own_keeps_it_under_a_pause_of_all() -> None:
    fleet = fleet_of(A)
    own = instructing(fleet).pause(A, bucket_of(A), for_ms=None, author=ADA)
    done = instructing(fleet).pause_all(BUCKETS, for_ms=None, author=BOB)
    counted = done.in_force(A)
    assert counted is not None
    assert counted.intent_id == own.written[0].intent_id


def test_resuming_one_vm_exempts_it_from_a_pause_of_all_until_that_ends() -> None:
    fleet = fleet_of(A, B)
    instructing(fleet).pause_all(BUCKETS, for_ms=600_000, author=ADA)
    done = instructing(fleet).resume(A, bucket_of(A), BOB)
    assert done.in_force(A) is None
    assert done.lifted[0].author == "ada@host"
    assert done.written[0].until_ms == NOW + 600_000
    fleet.now = type(fleet.now)(NOW + 599_000)
    assert instructing(fleet).resume(A, bucket_of(A), BOB).lifted == ()
    assert instructing(fleet).resume(B, bucket_of(B), BOB).lifted != ()


def test_a_new_pause_of_all_reaches_vms_that_had_been_resumed() -> None:
    fleet = fleet_of(A)
    instructing(fleet).pause_all(BUCKETS, for_ms=None, author=ADA)
    instructing(fleet).resume(A, bucket_of(A), BOB)
    again = instructing(fleet).pause_all(BUCKETS, for_ms=None, author=ADA)
    assert again.in_force(A) == again.written[0]


def test_resuming_all_lifts_the_pauses_of_single_vms_too() -> None:
    fleet = fleet_of(A, B)
    instructing(fleet).pause(A, bucket_of(A), for_ms=None, author=ADA)
    instructing(fleet).pause_all(BUCKETS, for_ms=None, author=ADA)
    done = instructing(fleet).resume_all(BUCKETS, BOB)
    assert {intent.target for intent in done.lifted} == {A, "*"}
    assert done.in_force(A) is None
    assert done.in_force(B) is None
    owner(fleet, done)
    assert instructing(fleet).wait(done) == ()


def test_resuming_what_is_not_paused_writes_nothing() -> None:
    fleet = fleet_of(A)
    done = instructing(fleet).resume(A, bucket_of(A), BOB)
    assert done.lifted == done.written == ()
    instructing(fleet).resume_all(BUCKETS, BOB)
    assert all(ShownIntents(fleet).list(bucket) == [] for bucket in BUCKETS)


def test_a_pause_that_has_ended_by_itself_no_longer_counts() -> None:
    fleet = fleet_of(A)
    instructing(fleet).pause(A, bucket_of(A), for_ms=1_000, author=ADA)
    fleet.now = type(fleet.now)(NOW + 1_000)
    assert instructing(fleet).resume(A, bucket_of(A), BOB).lifted == ()


def test_a_mode_is_overridden_and_given_back_to_the_platform() -> None:
    fleet = fleet_of(A)
    done = instructing(fleet).set_mode(A, bucket_of(A), Mode.OBSERVE, ADA)
    assert done.written[0].value == "observe"
    owner(fleet, done)
    assert instructing(fleet).wait(done) == ()
    back = instructing(fleet).clear_mode(A, bucket_of(A), BOB)
    assert back.lifted == done.written
    assert instructing(fleet).wait(back, 0.5) == (A,)
    owner(fleet, back)
    assert instructing(fleet).wait(back) == ()


def test_a_vm_that_goes_away_meanwhile_is_not_waited_for() -> None:
    fleet = fleet_of(A)
    done = instructing(fleet).pause(A, bucket_of(A), for_ms=None, author=ADA)
    fleet.records.clear()
    assert instructing(fleet).wait(done) == ()


def test_records_are_read_by_bucket_not_one_by_one() -> None:
    fleet = fleet_of(*(f"ns/vm-{i}" for i in range(40)))
    done = instructing(fleet).pause_all(BUCKETS, for_ms=None, author=ADA)
    owner(fleet, done)
    fleet.loads = 0
    assert instructing(fleet).wait(done) == ()
    assert fleet.loads == len(BUCKETS)
    assert json.loads(fleet.records[bucket_of(VmKey("ns/vm-0"))][VmKey("ns/vm-0")])["intents"]["pause"]
