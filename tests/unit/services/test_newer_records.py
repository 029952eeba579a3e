"""A record that a newer version wrote is left alone, and so is its VM."""

from __future__ import annotations

import json

import pytest

from app.errors import InvalidInput, NewerVersion
from app.ports.vm import VmKey
from app.services.record_version import RECORD_VERSION, is_of_newer_version, parse_record
from app.services.vm_record import read_record
from tests.fakes.states import MemoryState
from tests.service_builders import BUCKET, a_virtual_machine, an_intent
from tests.worker_harness import Worker

KEY = VmKey("default/db")


def a_record() -> dict[str, object]:
    first = Worker()
    first.sample(2)
    record: dict[str, object] = json.loads(first.states.load(BUCKET)[KEY])
    return record


def newer_records() -> list[bytes]:
    record = a_record()
    inner = {**record["snapshot"], "version": record["snapshot"]["version"] + 1}  # type: ignore[dict-item, index]
    return [
        json.dumps({**record, "v": RECORD_VERSION + 1}).encode(),
        json.dumps({**record, "snapshot": inner}).encode(),
        json.dumps({"v": RECORD_VERSION + 7, "all": "else differs"}).encode(),
    ]


NEWER = newer_records()


def holding(raw: bytes) -> MemoryState:
    states = Worker().states
    states.replace_records({BUCKET: {KEY: raw}})
    return states


def worker_beside(states: MemoryState) -> Worker:
    """A worker that takes the bucket, with a VM of which it knows everything beside the one in question."""
    other = a_virtual_machine(name="other", uid="uid-2")
    return Worker(a_virtual_machine(), other, states=states)


@pytest.mark.parametrize("raw", NEWER)
def test_its_vm_is_neither_run_nor_its_record_written(raw: bytes) -> None:
    states = holding(raw)
    worker = worker_beside(states)
    assert [runner.key for runner in worker.supervisor.runners()] == ["default/other"]
    assert worker.supervisor.left_alone() == [KEY]
    worker.take_up(an_intent())
    worker.supervisor.inventory.take(worker.platform.changes(None, wait_s=0))
    worker.settle()
    worker.supervisor.releasing(BUCKET)
    assert states.load(BUCKET)[KEY] == raw
    assert not [line for line in worker.log if line.startswith("platform")]


def test_it_stays_also_when_the_vm_has_gone() -> None:
    states = holding(NEWER[0])
    worker = Worker(a_virtual_machine(name="other", uid="uid-2"), states=states)
    assert worker.supervisor.left_alone() == []
    assert states.load(BUCKET)[KEY] == NEWER[0]


def test_a_record_of_no_version_at_all_is_begun_anew() -> None:
    states = holding(b'{"v": "two", "uid": "uid-1"}')
    worker = Worker(states=states)
    assert worker.supervisor.left_alone() == []
    assert worker.runner.key == KEY
    worker.sample(1)
    assert json.loads(states.load(BUCKET)[KEY])["v"] == RECORD_VERSION


@pytest.mark.parametrize("raw", NEWER)
def test_readers_say_that_it_is_of_a_newer_version(raw: bytes) -> None:
    with pytest.raises(NewerVersion):
        parse_record(raw)
    if json.loads(raw)["v"] > RECORD_VERSION:
        with pytest.raises(NewerVersion, match="newer vmscaler"):
            read_record(KEY, raw)


@pytest.mark.parametrize("version", [None, True, "2", 1.5, 0, -1, [2]])
def test_what_is_no_later_version_is_not_taken_for_one(version: object) -> None:
    raw = json.dumps({"v": version}).encode()
    assert not is_of_newer_version(raw)
    with pytest.raises(InvalidInput):
        parse_record(raw)
