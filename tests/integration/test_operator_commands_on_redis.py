"""The operator's commands as they are started, beside records that a real owner's commit wrote."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.adapters.redis_connection import RedisConnection
from app.adapters.redis_intents import RedisIntents
from app.adapters.redis_keys import RedisKeys
from app.adapters.redis_leases import RedisLeases
from app.adapters.redis_state import RedisState
from app.cli.root import run
from app.cluster.ring import BucketSet
from app.ports.store import BucketName, FencingToken, VmWrite
from app.ports.vm import VmKey
from app.services.record import build_write
from app.services.taking_up import take_up
from tests.fakes.shown_fleet import ShownFleet
from tests.fakes.shown_records import runner, sample

BUCKET_SET = BucketSet(4)
NAMES = tuple(BucketName(name) for name in BUCKET_SET.names)
TOKEN = FencingToken(7)


class Owner:
    """Writes the records of some VMs with a token of its own, by the real scripts."""

    def __init__(self, url: str, prefix: str) -> None:
        self.connection = RedisConnection(url)
        keys = RedisKeys(prefix)
        self.states = RedisState(self.connection, keys)
        self.intents = RedisIntents(self.connection, keys)
        RedisLeases(self.connection, keys, NAMES, duration_s=60.0).check_total(4)
        self.runners = []
        for key in ("prod/web", "prod/db", "dev/db"):
            vm = runner(ShownFleet(), key)
            vm.bucket = BucketName(BUCKET_SET.owner(key))
            vm.note("upscale", vm.vm.min, vm.vm.use, "load1 \x1b[31m0.9", "observed")
            sample(vm, 2.1, 1.0)
            self.runners.append(vm)

    def tick(self) -> None:
        for vm in self.runners:
            take_up(self.intents.list(vm.bucket), [vm])
            vm.decide()
            self.states.commit(vm.bucket, TOKEN, [build_write(vm)])

    def delete(self, key: str) -> None:
        bucket = BucketName(BUCKET_SET.owner(key))
        self.states.commit(bucket, TOKEN, [VmWrite(VmKey(key), None, is_deleted=True)])


@pytest.fixture
def config(redis_url: str, redis_prefix: str, tmp_path: Path) -> str:
    path = tmp_path / "config.json"
    settings = {"redis": {"url": redis_url, "prefix": redis_prefix}, "ownership": {"buckets": 4}}
    path.write_text(json.dumps(settings))
    return str(path)


@pytest.fixture
def owner(redis_url: str, redis_prefix: str) -> Iterator[Owner]:
    owner = Owner(redis_url, redis_prefix)
    owner.tick()
    yield owner
    owner.connection.close()


def test_every_reading_command_answers(owner: Owner, config: str, capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["vm", "list"], ["vm", "show", "web"], ["explain", "web"], ["events", "web"]):
        assert run(["--config", config, *command]) == 0
        output = capsys.readouterr().out
        assert "web" in output or "upscale" in output
        assert "\x1b" not in output
    assert run(["--config", config, "status"]) == 1
    assert "no live worker" in capsys.readouterr().out


def test_a_vm_that_was_deleted_is_unknown_and_its_trail_is_kept(
    owner: Owner, config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    owner.delete("prod/web")
    assert run(["--config", config, "vm", "show", "prod/web"]) == 2
    assert capsys.readouterr().err.startswith("vmscaler: unknown VM prod/web")
    assert run(["--config", config, "events", "prod/web"]) == 0
    assert "0.25 CPU, 1 GiB" in capsys.readouterr().out


def test_a_pause_is_taken_up_by_a_live_owner_and_taken_back(
    owner: Owner, config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    stop = threading.Event()

    def live() -> None:
        while not stop.wait(0.05):
            owner.tick()

    thread = threading.Thread(target=live)
    thread.start()
    try:
        assert run(["--config", config, "pause", "--all", "--for", "1h", "--json"]) == 0
        shape = json.loads(capsys.readouterr().out)
        assert shape["taken_up"] is True
        assert shape["vms"] == ["dev/db", "prod/db", "prod/web"]
        assert run(["--config", config, "resume", "web"]) == 0
        assert "taken up by the owner" in capsys.readouterr().out
        assert run(["--config", config, "vm", "list", "--json"]) == 0
        shown = {vm["vm"]: vm["pause"] is not None for vm in json.loads(capsys.readouterr().out)["vms"]}
        assert shown == {"dev/db": True, "prod/db": True, "prod/web": False}
    finally:
        stop.set()
        thread.join(30)


def test_another_number_of_buckets_than_the_fleets_is_one_clear_line(
    owner: Owner, config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    document = json.loads(Path(config).read_text())
    document["ownership"]["buckets"] = 8
    Path(config).write_text(json.dumps(document))
    assert run(["--config", config, "explain", "web"]) == 2
    assert "8 buckets, the fleet has 4" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command",
    [["status"], ["vm", "list"], ["vm", "show", "a"], ["explain", "a"], ["events", "a"], ["pause", "--all"]],
)
def test_without_redis_or_with_a_wrong_configuration_it_is_one_line(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = tmp_path / "missing.json"
    missing.write_text(json.dumps({"redis": {"url": f"unix://{tmp_path}/no.sock"}}))
    wrong = tmp_path / "wrong.json"
    wrong.write_text(json.dumps({"redis": {"url": 7}, "typo": 1}))
    for path, status in ((missing, 3), (wrong, 2), (tmp_path / "none.json", 2)):
        assert run(["--config", str(path), *command]) == status
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err.startswith("vmscaler: ")
        assert captured.err.count("\n") == 1
