"""`vmscaler monitor|scheduler request|informant` against our own peers and hostile ones."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.cli.root import run
from app.core.resources import resources
from app.guest.access import Access
from app.protocols.memory_policy import threshold_bytes
from app.web.scheduler import SchedulerApplication
from tests.fakes.guest_on_loop import GIB, GuestOnLoop, RawAgent, response
from tests.fakes.raw_peer import Handler, RawPeer, read_exactly, read_head
from tests.fakes.scheduler_fleet import machine, node_scheduler, whole
from tests.fakes.serving import served
from tests.fakes.websocket_peer import frame, greeted, read_json_frame
from tests.fleet_process import FleetProcess

YES, NO, USAGE, UNREACHABLE, TIMED_OUT = 0, 1, 2, 3, 4
A = "aaaaaaaa-0000-4000-8000-000000000000"
LONG = ("--timeout", "60")
SHORT = ("--timeout", "0.3")

Output = pytest.CaptureFixture[str]


@pytest.fixture
def guest() -> Iterator[GuestOnLoop]:
    """Its samples are in, so that downscales are judged by the rule."""
    guest = GuestOnLoop()
    yield guest
    guest.close()


def facts(output: Output) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(output.readouterr().out)
    return found


def address(peer: RawPeer) -> str:
    return f"{peer.host}:{peer.port}"


def silent(connection: socket.socket, number: int) -> None:
    while connection.recv(4096):
        pass


def read_request(connection: socket.socket) -> bytes:
    """The first line of a request whose body was read to its end; empty where there is none."""
    head = read_head(connection)
    lengths = [line.split(b":")[1] for line in head.split(b"\r\n") if line.lower().startswith(b"content-le")]
    read_exactly(connection, int(lengths[0]) if lengths else 0)
    return head.partition(b"\r\n")[0]


def always(answer: bytes, seen: list[bytes] | None = None) -> Handler:
    def handle(connection: socket.socket, number: int) -> None:
        while line := read_request(connection):
            if seen is not None:
                seen.append(line)
            connection.sendall(answer)

    return handle


def wait_for_samples(guest: GuestOnLoop, output: Output) -> None:
    """Until a downscale to the size that the guest has is allowed: its first samples are in."""
    words = ("monitor", "downscale", f"127.0.0.1:{guest.port}", "--memory", "8Gi", *LONG)
    while run(words) != YES:
        assert "no: " in output.readouterr().out
    output.readouterr()


def test_a_ping_and_both_changes_at_our_own_monitor(guest: GuestOnLoop, capsys: Output) -> None:
    url = f"ws://127.0.0.1:{guest.port}/monitor"
    wait_for_samples(guest, capsys)
    assert run(["monitor", "ping", url, *LONG]) == YES
    assert capsys.readouterr() == ("yes: it answers\n", "")
    assert run(["monitor", "upscale", url, "--cpu", "2", "--memory", "16Gi", "--json", *LONG]) == YES
    told = facts(capsys)
    assert (told["command"], told["peer"], told["outcome"]) == ("upscale", url, "yes")
    assert has_size(guest, 16 * GIB)
    assert run(["monitor", "downscale", url, "--memory", "4Gi", *LONG]) == YES
    assert has_size(guest, 4 * GIB)
    capsys.readouterr()
    assert run(["monitor", "downscale", url, "--memory", "1Gi", *LONG]) == NO
    assert capsys.readouterr().out.startswith("no: too little memory would be left")


def has_size(guest: GuestOnLoop, size_bytes: int) -> bool:
    """Whether the guest's memory rule goes by that size."""
    return guest.workload._policy.threshold == threshold_bytes(size_bytes)


def test_frames_are_shown_to_whoever_wants_to_see_them(guest: GuestOnLoop, capsys: Output) -> None:
    words = ["monitor", "ping", f"127.0.0.1:{guest.port}", *LONG]
    shown = [
        '→ {"min":1,"max":1}',
        '← {"version":1}',
        '→ {"content":{},"type":"HealthCheck","id":2}',
        '← {"type":"HealthCheck","id":2}',
    ]
    for with_frames in ([*words, "-v"], ["-v", *words]):
        assert run(with_frames) == YES
        assert [line for line in capsys.readouterr().err.splitlines() if line[0] in "→←"] == shown


def test_a_token_comes_from_a_file_and_is_shown_nowhere(tmp_path: Path, capsys: Output) -> None:
    file = tmp_path / "token"
    file.write_text("s3cret\n")
    guest = GuestOnLoop(access=Access(token="s3cret"), protected=frozenset({"monitor", "informant"}))
    url = f"127.0.0.1:{guest.port}"
    commands = (
        ["monitor", "ping", url, "-v", *LONG],
        ["informant", "unregister", url, "--agent-id", A, "--address", "127.0.0.1:5", "-v", *LONG],
    )
    try:
        for words in commands:
            assert run(words) == NO
            assert "401" in capsys.readouterr().err
            status = run([*words, "--token-file", str(file)])
            output = capsys.readouterr()
            assert (status == YES) or "status 404" in output.err
            assert "s3cret" not in output.out + output.err
    finally:
        guest.close()


@pytest.mark.parametrize("content", ["", "one\ntwo", "caf\u00e9"])
def test_a_file_with_no_usable_token_is_wrong_usage(tmp_path: Path, content: str, capsys: Output) -> None:
    file = tmp_path / "token"
    file.write_text(content)
    assert run(["monitor", "ping", "127.0.0.1:1", "--token-file", str(file)]) == USAGE
    assert capsys.readouterr().err.count("\n") == 1


def test_the_monitors_of_simulated_vms_answer_by_hand(capsys: Output) -> None:
    fleet = FleetProcess(vms=2)
    try:
        for vm in fleet.vms().values():
            where = vm["monitor_address"]
            assert run(["monitor", "ping", f"{where['host']}:{where['port']}", *LONG]) == YES
    finally:
        fleet.stop()


PEERS = [
    ("monitor", "ping"),
    ("monitor", "downscale", "--memory", "1Gi"),
    ("scheduler", "request", "--pod", "ns/a", "--cpu", "1", "--memory-slots", "1"),
    ("informant", "downscale", "--memory", "1Gi"),
    ("informant", "upscale", "--memory", "1Gi"),
    ("informant", "unregister", "--agent-id", A, "--address", "127.0.0.1:5"),
]


@pytest.mark.parametrize("words", PEERS, ids=" ".join)
def test_a_peer_that_says_nothing_costs_its_time_limit_and_status_4(
    words: tuple[str, ...], capsys: Output
) -> None:
    with RawPeer(silent) as peer:
        assert run([*words, address(peer), *SHORT]) == TIMED_OUT
        assert run([*words, address(peer), *SHORT, "--json"]) == TIMED_OUT
    output = capsys.readouterr()
    assert json.loads(output.out)["outcome"] == "timed-out"
    assert output.err.count("\n") == 1


@pytest.mark.parametrize("words", PEERS, ids=" ".join)
def test_a_peer_that_is_not_there_is_status_3(words: tuple[str, ...], capsys: Output) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    assert run([*words, f"127.0.0.1:{port}", *LONG]) == UNREACHABLE
    assert "no connection" in capsys.readouterr().err


@pytest.mark.parametrize("words", PEERS, ids=" ".join)
@pytest.mark.parametrize(
    "answer",
    [
        response(b"moved", "307 Temporary Redirect", b"Location: http://127.0.0.1:1/\r\n"),
        response(b"\x1b[2Jno", "400 Bad Request"),
        response(b"x" * 70_000),
    ],
    ids=["redirect", "refusal", "too long"],
)
def test_what_is_no_answer_of_the_protocol_is_status_1_and_harmless(
    words: tuple[str, ...], answer: bytes, capsys: Output
) -> None:
    with RawPeer(always(answer)) as peer:
        assert run([*words, address(peer), "-v", *LONG]) == NO
    shown = capsys.readouterr().err
    assert "\x1b" not in shown
    assert len(shown) < 10_000


@pytest.mark.parametrize("words", [each for each in PEERS if each[:2] != ("informant", "upscale")][2:])
@pytest.mark.parametrize("body", [b"[]", b'{"permit": 1, "Ok": "yes", "wasActive": 1}', b"{" * 99, b"\xff"])
def test_a_200_of_another_shape_is_status_1(words: tuple[str, ...], body: bytes, capsys: Output) -> None:
    with RawPeer(always(response(body))) as peer:
        assert run([*words, address(peer), *LONG]) == NO
    assert "an unusable answer" in capsys.readouterr().err


def test_a_monitor_with_terrible_words_is_shown_escaped_and_cut(capsys: Output) -> None:
    def converse(connection: socket.socket) -> None:
        asked = read_json_frame(connection)
        status = "\x1b]0;owned\x07\u202e" + "x" * 30_000
        answer = {"type": "DownscaleResult", "id": asked["id"], "Ok": False, "Status": status}
        connection.sendall(frame(json.dumps(answer, ensure_ascii=False).encode()))
        silent(connection, 0)

    with RawPeer(greeted(converse)) as peer:
        assert run(["monitor", "downscale", address(peer), "--memory", "1Gi", "-v", *LONG]) == NO
    output = capsys.readouterr()
    for text in (output.out, output.err):
        assert "\x1b" not in text
        assert "\x07" not in text
        assert "\u202e" not in text
        assert max(map(len, text.splitlines())) <= 2_000


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        ({"type": "DownscaleResult", "Ok": True, "Status": ""}, NO),
        ({"type": "InternalError", "error": "hook"}, NO),
        ({"type": "HealthCheck", "id": 4}, TIMED_OUT),
        ({"type": "HealthCheck", "id": "2"}, TIMED_OUT),
    ],
    ids=["another kind", "an error", "another id", "broken"],
)
def test_a_monitor_that_answers_something_else(answer: dict[str, object], status: int) -> None:
    def converse(connection: socket.socket) -> None:
        asked = read_json_frame(connection)
        connection.sendall(frame(json.dumps({"id": asked["id"]} | answer).encode()))
        silent(connection, 0)

    with RawPeer(greeted(converse)) as peer:
        # What ends by its time limit may do so soon; the others must not.
        limit = LONG if status == NO else ("--timeout", "2")
        assert run(["monitor", "ping", address(peer), *limit]) == status


def test_a_guest_that_asks_for_memory_meanwhile_is_told_of(capsys: Output) -> None:
    def converse(connection: socket.socket) -> None:
        read_json_frame(connection)
        for number in (1, 3):
            connection.sendall(frame(json.dumps({"type": "UpscaleRequest", "id": number}).encode()))
        connection.sendall(frame(b'{"type": "HealthCheck", "id": 2}'))
        silent(connection, 0)

    with RawPeer(greeted(converse)) as peer:
        assert run(["monitor", "ping", address(peer), "--json", *LONG]) == YES
    assert facts(capsys)["asked_for_memory"] is True


def test_a_monitor_that_hangs_up_on_a_question_may_have_acted_on_it(capsys: Output) -> None:
    def hang_up(connection: socket.socket) -> None:
        read_json_frame(connection)

    with RawPeer(greeted(hang_up)) as peer:
        assert run(["monitor", "upscale", address(peer), "--memory", "1Gi", *LONG]) == TIMED_OUT
    assert "the connection ended" in capsys.readouterr().err


REQUEST = ("scheduler", "request", "--pod", "ns/a", "--memory-slots", "2", *LONG)


@pytest.mark.parametrize("version", ["v1.0", "v1.1", "v2.0", "v2.1", "v3.0", "v4.0", "v5.0"])
def test_our_own_scheduler_grants_in_every_version(version: str, capsys: Output) -> None:
    application = SchedulerApplication(node_scheduler(whole(machine("a"))), resources(250, 1))
    with served(application) as port:
        url = f"http://127.0.0.1:{port}"
        assert run([*REQUEST, url, "--cpu", "2", "--protocol", version, "--json"]) == YES
        told = facts(capsys)
        assert told["permit"] == {"cpu_m": 2000, "mem": 2, "mem_bytes": 2 * GIB}
        assert (told["compute_unit"] is None) == (version >= "v3.0")
        assert told["migrating"] is False


def test_what_a_scheduler_grants_in_part_or_refuses_is_no(capsys: Output) -> None:
    vms = whole(machine("a"), machine("moving", migrating=True))
    application = SchedulerApplication(node_scheduler(vms, cpu=1500), resources(250, 1))
    with served(application) as port:
        assert run([*REQUEST, f"127.0.0.1:{port}", "--cpu", "4", "-v"]) == NO
        output = capsys.readouterr()
        assert output.out.startswith("no: granted ")
        assert " of 4 CPU, 2 slots" in output.out
        lines = [line for line in output.err.splitlines() if line[0] in "→←"]
        assert [line.split(" {")[0] for line in lines] == ["→ POST /", "← 200"]
        assert run([*REQUEST, f"127.0.0.1:{port}", "--cpu", "4", "--pod", "ns/nobody"]) == NO
        assert "HTTP status 404" in capsys.readouterr().err


def test_a_vm_that_is_about_to_migrate_is_no(capsys: Output) -> None:
    body = {"permit": {"vCPUs": 1, "mem": 2}, "migrate": {}, "resourceUnit": {"vCPUs": 1, "mem": 1}}
    with RawPeer(always(response(json.dumps(body).encode()))) as peer:
        assert run([*REQUEST, address(peer), "--cpu", "1"]) == NO
    assert "about to migrate" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"permit": {"vCPUs": 900, "mem": 2}}, "above the 1 CPU, 2 slots asked for"),
        ({"resourceUnit": {"vCPUs": 0, "mem": 1}}, "the compute unit has a zero field"),
    ],
)
def test_a_grant_that_no_agent_would_take_is_no(
    change: dict[str, object], problem: str, capsys: Output
) -> None:
    body = {"permit": {"vCPUs": 1, "mem": 2}, "resourceUnit": {"vCPUs": 1, "mem": 1}} | change
    with RawPeer(always(response(json.dumps(body).encode()))) as peer:
        assert run([*REQUEST, address(peer), "--cpu", "1"]) == NO
    assert problem in capsys.readouterr().out


def test_a_request_by_hand_carries_no_fencing_token() -> None:
    heads: list[bytes] = []

    def handle(connection: socket.socket, number: int) -> None:
        heads.append(read_head(connection))
        connection.sendall(response(b"", "400 Bad Request"))

    with RawPeer(handle) as peer:
        assert run([*REQUEST, address(peer), "--cpu", "1"]) == NO
    assert b"x-vmscaler-token" not in heads[0].lower()


def test_the_options_of_the_server_are_none_of_a_request(capsys: Output) -> None:
    words = ["scheduler", "--port", "5", "request", "127.0.0.1:1", *REQUEST[2:], "--cpu", "1"]
    assert run(words) == USAGE
    assert "--port" in capsys.readouterr().err


def test_an_informant_answers_hosts_with_an_agent_only(guest: GuestOnLoop, capsys: Output) -> None:
    url = f"http://127.0.0.1:{guest.port}"
    wait_for_samples(guest, capsys)
    size = ("--memory", "4Gi", "--cpu", "500m", *LONG)
    assert run(["informant", "upscale", url, *size]) == NO
    assert "403" in capsys.readouterr().err
    with RawPeer(RawAgent(A)) as agent:
        guest.run(guest.agents.register_new_agent(RawAgent(A).desc(agent.port), caller="127.0.0.1"))
        assert run(["informant", "upscale", url, *size]) == YES
        assert has_size(guest, 4 * GIB)
        assert run(["informant", "downscale", url, "--memory", "100Mi", *LONG]) == NO
        assert "no: too little memory" in capsys.readouterr().out
        words = ["informant", "unregister", url, "--agent-id", A, *LONG]
        assert run([*words, "--address", "127.0.0.1:5"]) == NO
        capsys.readouterr()
        assert run([*words, "--address", f"127.0.0.1:{agent.port}", "--json"]) == YES
        assert facts(capsys)["was_active"] is True
