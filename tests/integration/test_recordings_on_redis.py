"""`vmscaler record` beside owners that tick, over a real Redis; and the stream between the two."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.adapters.clock import SystemClock
from app.adapters.embedded_redis import EmbeddedRedis
from app.adapters.redis_connection import RedisConnection
from app.adapters.redis_intents import RedisIntents
from app.adapters.redis_keys import RedisKeys
from app.adapters.redis_leases import RedisLeases
from app.adapters.redis_recordings import MAX_BACKLOG, RedisRecordings
from app.adapters.redis_state import RedisState
from app.cli.root import run
from app.cluster.ring import BucketSet
from app.errors import PeerRefused, StoreUnavailable
from app.ports.recording import RecordedPiece, RecordingEnd
from app.ports.store import BucketName, FencingToken
from app.ports.vm import VmKey
from app.services.beginning import begin_runner
from app.services.record import build_write
from app.services.recording import Recordings
from tests.fakes.shown_fleet import ShownFleet
from tests.fakes.shown_records import permit, runner, sample, settings

BUCKET_SET = BucketSet(4)
KEY = VmKey("prod/web")
BUCKET = BucketName(BUCKET_SET.owner(KEY))


class Turns:
    """Concurrency of a thread: letting others run needs nothing."""

    def sleep(self, seconds: float) -> None:
        return


class Owner:
    """Owns one VM, in a thread of its own, until another one takes over."""

    def __init__(self, url: str, prefix: str) -> None:
        self.connection, self.keys = RedisConnection(url), RedisKeys(prefix)
        self.states = RedisState(self.connection, self.keys)
        self.intents = RedisIntents(self.connection, self.keys)
        self.streams = RedisRecordings(self.connection, self.keys)
        names = tuple(BucketName(name) for name in BUCKET_SET.names)
        RedisLeases(self.connection, self.keys, names, duration_s=60.0).check_total(4)
        self.fleet = ShownFleet()
        self.runner = runner(self.fleet, KEY)
        self.token, self.ticks = 0, 0
        self.recordings = self._desk()
        self.commit()

    def _desk(self) -> Recordings:
        self.token += 1
        return Recordings(f"w{self.token}", SystemClock(), Turns(), self.streams)  # type: ignore[arg-type]

    def commit(self) -> None:
        self.states.commit(BUCKET, FencingToken(self.token), [build_write(self.runner)])

    def tick(self) -> None:
        self.ticks += 1
        self.fleet.now = type(self.fleet.now)(self.fleet.now + 1_500)
        sample(self.runner, 0.1 + self.ticks % 7 / 3, 1.0 + self.ticks % 3)
        self.recordings.take_up(BUCKET, [self.runner], self.intents.list(BUCKET))
        self.recordings.flush()
        self.commit()

    def hand_over(self, *, is_killed: bool) -> None:
        """The next owner goes on from the record; a killed one has no last word."""
        self.runner.is_closed = True
        if not is_killed:
            self.recordings.close()
        raw = self.states.read(BUCKET, KEY)
        self.runner = begin_runner(self.runner.vm, BUCKET, raw, settings(f"w{self.token + 1}"), self.fleet)
        self.runner.is_ready = True
        permit(self.runner, self.runner.state.vm.use, self.runner.state.vm.use)
        self.recordings = self._desk()


class Life:
    """The owner's thread; `at` does something at a certain tick."""

    def __init__(self, owner: Owner) -> None:
        self.owner = owner
        self.at: dict[int, Callable[[], None]] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(0.05):
            self.owner.tick()
            self.at.pop(self.owner.ticks, lambda: None)()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(30)


@pytest.fixture
def config(redis_url: str, redis_prefix: str, tmp_path: Path) -> str:
    path = tmp_path / "config.json"
    document = {"redis": {"url": redis_url, "prefix": redis_prefix}, "ownership": {"buckets": 4}}
    path.write_text(json.dumps(document))
    return str(path)


@pytest.fixture
def owner(redis_url: str, redis_prefix: str) -> Iterator[Owner]:
    owner = Owner(redis_url, redis_prefix)
    yield owner
    owner.connection.close()


@pytest.fixture
def life(owner: Owner) -> Iterator[Life]:
    life = Life(owner)
    yield life
    life.stop()


def differing(file: Path, capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    with pytest.raises(SystemExit) as exited:
        run(["replay", "--check", str(file)])
    assert exited.value.code == 0
    return capsys.readouterr().out.splitlines()[-1]


def test_a_recording_of_a_live_vm_replays_without_difference(
    life: Life, config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "web.jsonl"
    assert run(["--config", config, "record", "web", "--for", "2s", "-o", str(file)]) == 0
    assert "recorded 1 script, " in capsys.readouterr().err
    assert file.stat().st_mode & 0o777 == 0o600
    (script,) = [json.loads(line) for line in file.read_text().splitlines()]
    assert script["steps"][0]["event"]["op"] == "new"
    assert "snapshot" in script["steps"][0]["event"]
    assert sum(step["event"]["op"] == "metrics" for step in script["steps"]) >= 5
    assert differing(file, capsys) == f"1 scripts, {len(script['steps'])} steps, 0 differ"


def test_a_recording_leaves_nothing_in_redis(life: Life, config: str, tmp_path: Path, owner: Owner) -> None:
    file = tmp_path / "web.jsonl"
    assert run(["--config", config, "record", "web", "--for", "1s", "-o", str(file)]) == 0
    life.stop()
    assert owner.intents.list(BUCKET) == []
    assert owner.connection.execute("KEYS", f"{owner.keys.prefix}*recording*") == []


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_change_of_owner_begins_a_new_script(
    is_killed: bool, life: Life, config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], owner: Owner
) -> None:
    life.at = {ticks: lambda: owner.hand_over(is_killed=is_killed) for ticks in range(30, 1_000, 60)}
    file = tmp_path / "web.jsonl"
    assert run(["--config", config, "record", "prod/web", "--for", "6s", "-o", str(file)]) == 0
    scripts = [json.loads(line) for line in file.read_text().splitlines()]
    assert len(scripts) >= 2
    assert len({script["id"] for script in scripts}) == len(scripts)
    times = [step["event"]["now_ms"] for script in scripts for step in script["steps"]]
    assert times == sorted(times)
    assert differing(file, capsys).endswith(" 0 differ")


def test_standard_output_takes_the_recording_and_nothing_else(
    life: Life, config: str, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert run(["--config", config, "record", "web", "--for", "1s", "-o", "-"]) == 0
    (line,) = capfdbinary.readouterr().out.splitlines()
    assert json.loads(line)["steps"][0]["event"]["op"] == "new"


def test_a_vm_that_nobody_owns_gives_no_recording_and_status_1(
    owner: Owner,
    config: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("app.services.following.LAST_WORD_S", 0.5)
    file = tmp_path / "web.jsonl"
    assert run(["--config", config, "record", "web", "--for", "1s", "-o", str(file)]) == 1
    assert "nothing recorded" in capsys.readouterr().err
    assert file.read_bytes() == b""
    assert owner.intents.list(BUCKET) == []


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["record", "none"], "unknown VM none"),
        (["record", "web", "--for", "5"], "is not a duration"),
        (["record", "web", "-o", "/nowhere/x.jsonl"], "/nowhere/x.jsonl: No such file or directory"),
    ],
)
def test_wrong_usage_is_one_line_and_asks_nobody(
    arguments: list[str], text: str, owner: Owner, config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["--config", config, *arguments]) == 2
    assert text in capsys.readouterr().err
    assert owner.intents.list(BUCKET) == []


def test_pieces_come_out_in_order_once_and_with_their_end(owner: Owner) -> None:
    sink = owner.streams.sink(BUCKET, KEY, "one")
    sink.append("a", b'{"x":1}')
    sink.append("b", b"\x00 any bytes")
    sink.end("b", RecordingEnd.OWNER)
    assert owner.streams.take(BUCKET, KEY, "one") == [
        RecordedPiece("a", 1, b'{"x":1}'),
        RecordedPiece("b", 2, b"\x00 any bytes"),
        RecordedPiece("b", 3, b"", RecordingEnd.OWNER),
    ]
    assert owner.streams.take(BUCKET, KEY, "one") == []
    assert 0 < owner.connection.execute("PTTL", owner.keys.recording(BUCKET, KEY, "one")) <= 600_000
    owner.streams.drop(BUCKET, KEY, "one")
    assert owner.connection.execute("EXISTS", owner.keys.recording(BUCKET, KEY, "one")) == 0


def test_a_stream_that_nobody_reads_stays_short(owner: Owner) -> None:
    sink = owner.streams.sink(BUCKET, KEY, "one")
    for _ in range(MAX_BACKLOG):
        sink.append("a", b"{}")
    for _ in range(5 * MAX_BACKLOG):
        with pytest.raises(PeerRefused):
            sink.append("a", b"{}")
    assert owner.connection.execute("XLEN", owner.keys.recording(BUCKET, KEY, "one")) < 4 * MAX_BACKLOG


def test_a_piece_that_redis_did_not_take_keeps_its_number(own_redis: EmbeddedRedis) -> None:
    connection = RedisConnection(own_redis.url, socket_timeout_s=1.0)
    streams = RedisRecordings(connection, RedisKeys("test"))
    sink = streams.sink(BUCKET, KEY, "one")
    sink.append("a", b"1")
    connection.execute("CONFIG", "SET", "maxmemory", "1")
    with pytest.raises(StoreUnavailable):
        sink.append("a", b"2")
    connection.execute("CONFIG", "SET", "maxmemory", "0")
    sink.append("a", b"2")
    assert [(piece.seq, piece.steps) for piece in streams.take(BUCKET, KEY, "one")] == [(1, b"1"), (2, b"2")]
    connection.close()
