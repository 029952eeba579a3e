"""`dump` and `support-bundle`: what the fleet tells, who does not answer, and no secret in any of it."""

from __future__ import annotations

import base64
import json
import tarfile
import threading
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

from click.testing import CliRunner, Result

from app.adapters.clock import SystemClock
from app.cli.dump import DumpAccess
from app.cli.root import root
from app.cli.support_bundle import SupportAccess
from app.config import Settings, build_settings
from app.config.secrets import known_secrets
from app.config.showing import effective_yaml
from app.errors import PeerTimedOut, StoreUnavailable, UsageError
from app.ports.vm import VmKey
from app.services.dump_gathering import DumpGathering
from app.services.lease_listing import LeaseListing
from app.services.plain_threads import PlainThreads
from tests.fakes.clock import FakeClock
from tests.fakes.shown_fleet import BUCKETS, ShownFleet, inspection
from tests.fakes.shown_records import runner, show
from tests.fakes.ticks import MemoryTicks

PASSWORDS = {
    "url": "url-pass/word:1",
    "file": "file-password-2",
    "token": "web-token-3456789",
    "env": "stats-secret-of-at-least-32-characters",
    "hook": "T000-B000-XXXXXXXXXXXX",
    "login": "$2b$12$hash-of-a-login",
    "key": "MIIEvQIBADANBgkqhkiG9w0B",
    "billing": "sink-password",
}


class Pages:
    """Pages by address and path; an error is raised."""

    def __init__(self, pages: dict[tuple[str, str], bytes | Exception]) -> None:
        self.pages = pages
        self.asked: list[tuple[str, str, str]] = []

    def read(self, kind: str, address: str, path: str, *, timeout_s: float, max_bytes: int) -> bytes:
        self.asked.append((kind, address, path))
        found = self.pages.get((address, path.partition("?")[0]), PeerTimedOut(address, "no answer in time"))
        if isinstance(found, Exception):
            raise found
        return found


def a_dump(*keys: str) -> bytes:
    pods = [
        {"podName": {"namespace": key.partition("/")[0], "name": key.partition("/")[2]}, "status": {}}
        for key in keys
    ]
    return json.dumps({"stopped": False, "buildInfo": {"version": "1"}, "pods": pods}).encode()


def add_worker(fleet: ShownFleet, name: str, **facts: object) -> None:
    fleet.add_agent("worker", name, **{"address": f"{name}:9100", "dump_address": f"{name}:10300", **facts})


def a_fleet(*workers: str) -> ShownFleet:
    fleet = ShownFleet()
    for name in workers:
        add_worker(fleet, name)
    return fleet


def dump(fleet: ShownFleet, pages: Pages, *arguments: str) -> Result:
    access = DumpAccess(inspection(fleet), DumpGathering(pages, SystemClock(), PlainThreads()))
    return CliRunner().invoke(root, ["dump", *arguments], obj=access, standalone_mode=False)


def test_the_dumps_of_all_workers_are_gathered_by_name() -> None:
    fleet = a_fleet("w2", "w1")
    pages = Pages({("w1:10300", "/"): a_dump("ns/a"), ("w2:10300", "/"): a_dump("ns/b", "ns/c")})
    result = dump(fleet, pages)
    told = json.loads(result.stdout)
    assert [(each["worker"], len(each["pods"])) for each in told["workers"]] == [("w1", 1), ("w2", 2)]
    assert told["workers"][0]["buildInfo"] == {"version": "1"}
    assert told["unanswered"] == []
    assert told["takenAt"] == "2023-11-15T12:00:00.000Z"
    assert (result.return_value, result.stderr) == (0, "")


def test_workers_that_did_not_answer_are_named_with_the_reason() -> None:
    fleet = a_fleet("w1", "w2", "w3", "w4")
    add_worker(fleet, "w5", dump_address=None)
    deep = b'{"pods":' + b"[" * 5_000 + b"]" * 5_000 + b"}"
    pages = Pages(
        {
            ("w1:10300", "/"): a_dump("ns/a"),
            ("w3:10300", "/"): b"<html>",
            ("w4:10300", "/"): deep,
        }
    )
    result = dump(fleet, pages)
    told = json.loads(result.stdout)
    assert {each["worker"]: each["problem"].split(":")[0] for each in told["unanswered"]} == {
        "w2": "no answer in time",
        "w3": "its answer is no state dump",
        "w4": "its answer is no state dump",
        "w5": "it serves no state dump",
    }
    assert result.return_value == 1
    assert "w2 at w2:10300: no answer in time" in result.stderr


def test_a_worker_that_hangs_costs_no_more_than_the_time_that_was_given() -> None:
    fleet = a_fleet("w1", "w2")
    gate = threading.Event()

    class Hanging(Pages):
        def read(self, kind: str, address: str, path: str, *, timeout_s: float, max_bytes: int) -> bytes:
            if address.startswith("w2"):
                gate.wait(60)
            return super().read(kind, address, path, timeout_s=timeout_s, max_bytes=max_bytes)

    result = dump(fleet, Hanging({("w1:10300", "/"): a_dump("ns/a")}), "--timeout", "1s")
    gate.set()
    told = json.loads(result.stdout)
    assert [each["worker"] for each in told["workers"]] == ["w1"]
    assert [each["problem"] for each in told["unanswered"]] == ["no answer within 1 s"]


def test_only_workers_are_asked_and_nothing_of_theirs_passes_for_the_registrys() -> None:
    fleet = a_fleet("w1")
    fleet.add_agent("beat", "beat", address="beat:9100", dump_address="beat:10300")
    hostile = json.dumps({"worker": "other", "agentID": "x", "pods": [], "evil": "\x1b[2J"}).encode()
    pages = Pages({("w1:10300", "/"): hostile})
    (told,) = json.loads(dump(fleet, pages).stdout)["workers"]
    assert (told["worker"], told["agentID"], "evil" in told) == ("w1", "id-w1", False)
    assert [address for _, address, _ in pages.asked] == ["w1:10300"]


def test_control_characters_in_a_dump_reach_no_terminal() -> None:
    pages = Pages({("w1:10300", "/"): json.dumps({"pods": [{"x": "\x1b[2J\u202e"}]}).encode()})
    assert "\x1b" not in dump(a_fleet("w1"), pages).stdout


def test_one_vm_or_one_bucket_is_asked_for_by_name() -> None:
    fleet = a_fleet("w1")
    show(fleet, runner(fleet, "ns/a"))
    pages = Pages({("w1:10300", "/"): a_dump("ns/a")})
    assert dump(fleet, pages, "--vm", "a").return_value == 0
    assert dump(fleet, pages, "--bucket", "2").return_value == 0
    assert dump(fleet, pages, "--bucket", BUCKETS[3]).return_value == 0
    assert [path for _, _, path in pages.asked] == [
        "/?vm=ns/a",
        f"/?bucket={BUCKETS[2]}",
        f"/?bucket={BUCKETS[3]}",
    ]


def test_a_vm_that_nobody_runs_and_a_bucket_that_is_none_are_told() -> None:
    fleet = a_fleet("w1")
    result = dump(fleet, Pages({("w1:10300", "/"): a_dump()}), "--vm", "ns/nobody")
    assert (result.return_value, result.stderr) == (1, "no worker that answered runs ns/nobody\n")
    assert isinstance(dump(fleet, Pages({}), "--vm", "nobody").exception, UsageError)
    assert isinstance(dump(fleet, Pages({}), "--bucket", "4").exception, UsageError)


def test_a_fleet_without_workers_says_so() -> None:
    result = dump(ShownFleet(), Pages({}))
    assert (result.return_value, result.stderr) == (1, "no live worker\n")


# --- the bundle -------------------------------------------------------------------------------------------


def planted(directory: Path) -> tuple[Settings, dict[str, str]]:
    """A configuration with a secret at each place where one can stand."""
    for name in ("file", "token"):
        (directory / name).write_text(PASSWORDS[name] + "\n")
    (directory / "flower").write_text(f"ada:{PASSWORDS['login']}\n")
    (directory / "key.pem").write_text(
        f"-----BEGIN PRIVATE KEY-----\n{PASSWORDS['key']}\n-----END PRIVATE KEY-----\n"
    )
    document = {
        "redis": {"url": f"redis://ada:{quote(PASSWORDS['url'], safe='')}@db:6379/0"},
        "platform": {"tokenFile": str(directory / "file")},
        "security": {"servers": {"web": {"tokenFile": str(directory / "token")}}},
        "flower": {"authFile": str(directory / "flower")},
        "billing": {"url": f"https://user:{PASSWORDS['billing']}@sink.example/{PASSWORDS['hook']}"},
    }
    document["security"]["servers"]["web"] |= {"tlsCertFile": str(directory / "key.pem")}  # type: ignore[index]
    environ = {"VMSCALER_STATS_SECRET": PASSWORDS["env"]}
    return build_settings(document, environ), environ


def in_all_spellings(secret: str) -> set[str]:
    return {
        secret,
        quote(secret, safe=""),
        json.dumps(secret)[1:-1],
        base64.b64encode(secret.encode()).decode().rstrip("="),
    }


def test_no_secret_is_in_the_archive_wherever_it_stood(tmp_path: Path) -> None:
    settings, environ = planted(tmp_path)
    everything = " ".join(sorted(set().union(*map(in_all_spellings, PASSWORDS.values()))))
    split = [everything[at : at + 90] for at in range(0, len(everything), 90)]
    fleet = a_fleet("w1", "w2")
    add_worker(fleet, "w3", problems=[f"can't reach {word}" for word in everything.split()])
    fleet.add_agent("scheduler", "scheduler", address="s:10299", problems=split)
    key = VmKey("ns/a")
    show(
        fleet,
        runner(fleet, "ns/a"),
        status="errored",
        status_reason=f"no answer of https://user:{PASSWORDS['billing']}@sink.example/",
        mode_by=PASSWORDS["login"],
    )
    for number, word in enumerate(everything.split()):
        fleet.add_event(key, 1_000 + number, kind="failed", why=f"it said {word}", who=word)
    answer = json.loads(a_dump("ns/a")) | {
        "pods": [{"error": everything, "token": "unknown-token-of-a-peer"}]
    }
    pages = Pages(
        {
            ("w1:10300", "/"): json.dumps(answer).encode(),
            ("w2:10300", "/"): StoreUnavailable("redis", f"AUTH {everything}"),
            ("w1:9100", "/metrics"): f'x{{why="{everything}"}} 1\n'.encode(),
            ("s:10299", "/metrics"): StoreUnavailable("s", everything),
        }
    )

    def fail() -> str:
        raise StoreUnavailable("redis", f"WRONGPASS {everything}")

    archive = tmp_path / "bundle.tar.gz"
    result = bundle(
        fleet,
        pages,
        known_secrets(settings, environ),
        archive,
        {
            "config.yaml": lambda: effective_yaml(settings),
            "redis.txt": fail,
            "raw.txt": lambda: (
                everything + repr(settings) + "\nAuthorization: Bearer unknown-token-of-a-peer"
            ),
        },
    )
    files = read_archive(archive)
    assert {"config.yaml", "dump.json", "events.jsonl", "status.json", "vms.json", "leases.json"} <= set(
        files
    )
    whole = "".join(files.values()) + result.stdout + result.stderr
    for name, secret in PASSWORDS.items():
        for spelled in in_all_spellings(secret):
            assert spelled not in whole, f"{name} as {spelled}"
    assert "unknown-token-of-a-peer" not in whole
    assert "***" in files["events.jsonl"]
    assert result.return_value == 1
    assert "missing: redis.txt: redis: WRONGPASS ***" in result.stderr


def test_the_archive_holds_each_part_and_says_what_is_in_it(tmp_path: Path) -> None:
    fleet = a_fleet("w1")
    show(fleet, runner(fleet, "ns/a"))
    fleet.add_event(VmKey("ns/a"), 1_000, kind="upscale", why="load", who="w1")
    pages = Pages({("w1:10300", "/"): a_dump("ns/a"), ("w1:9100", "/metrics"): b"up 1\n"})
    archive = tmp_path / "bundle.tar.gz"
    result = bundle(fleet, pages, set(), archive, {"versions.json": lambda: '{"version": "1"}'})
    assert result.return_value == 0
    assert archive.stat().st_mode & 0o777 == 0o600
    files = read_archive(archive)
    contents = json.loads(files["CONTENTS.json"])
    assert set(contents["files"]) == set(files) - {"CONTENTS.json"}
    assert contents["missing"] == {}
    assert files["metrics/worker-w1-id-w1.txt"] == "up 1\n"
    assert json.loads(files["events.jsonl"])["kind"] == "upscale"
    assert json.loads(files["dump.json"])["workers"][0]["pods"][0]["podName"]["name"] == "a"
    assert len(json.loads(files["leases.json"])["leases"]) == len(BUCKETS)
    assert [vm["vm"] for vm in json.loads(files["vms.json"])] == ["ns/a"]


def test_a_file_that_is_there_is_not_overwritten(tmp_path: Path) -> None:
    archive = tmp_path / "bundle.tar.gz"
    archive.write_text("mine")
    result = bundle(a_fleet(), Pages({}), set(), archive, {})
    assert isinstance(result.exception, UsageError)
    assert archive.read_text() == "mine"


def bundle(
    fleet: ShownFleet,
    pages: Pages,
    secrets: set[str],
    archive: Path,
    texts: dict[str, Callable[[], str]],
) -> Result:
    access = SupportAccess(
        inspection(fleet),
        LeaseListing(fleet, fleet, MemoryTicks(FakeClock()), BUCKETS),
        DumpGathering(pages, SystemClock(), PlainThreads()),
        pages,
        secrets,
        texts,
    )
    arguments = ["support-bundle", "-o", str(archive)]
    return CliRunner().invoke(root, arguments, obj=access, standalone_mode=False)


def read_archive(path: Path) -> dict[str, str]:
    found = {}
    with tarfile.open(path) as archive:
        for member in archive.getmembers():
            file = archive.extractfile(member)
            assert file is not None
            found[member.name.partition("/")[2]] = file.read().decode()
    return found
