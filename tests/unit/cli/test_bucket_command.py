"""`vmscaler bucket`: two columns, a third where a fleet runs, and clear errors for what is no key."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from app.cli.root import root, run
from app.cluster.ring import bucket_names
from app.errors import UsageError
from app.ports.store import FencingToken, Holder
from tests.fakes.clock import FakeClock
from tests.fakes.leases import MemoryLeases

VECTORS = json.loads((Path(__file__).parents[2] / "data" / "hash.json").read_text())
HOLDER = Holder("worker-1_10.0.0.7", "agent")


def leases_of(total: int, *, is_alive: bool = True) -> MemoryLeases:
    clock = FakeClock()
    leases = MemoryLeases(clock, bucket_names(total), duration_s=10)
    leases.check_total(total)
    leases.round(HOLDER, {})
    clock.advance(11)
    leases.acquire(HOLDER, list(leases.view().leases)[:-1], FencingToken(0))
    if is_alive:
        leases.round(HOLDER, {})
    return leases


def away() -> MemoryLeases:
    leases = leases_of(4)
    leases.is_away = True
    return leases


def bucket(*arguments: str, leases: MemoryLeases | None = None, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(
        root, ["bucket", *arguments], obj=leases or away(), input=stdin, standalone_mode=False
    )


@pytest.mark.parametrize("entry", VECTORS["owners"], ids=lambda entry: f"total-{entry['total']}")
def test_recorded_owners_are_printed_in_order(entry: dict) -> None:
    stdin = "".join(row["key"] + "\n" for row in entry["owners"]).encode()
    expected = "".join(f"{row['key']}\t{row['owner']}\n" for row in entry["owners"])
    assert bucket("--total", str(entry["total"]), "-", stdin=stdin).output == expected


def test_the_number_of_buckets_is_the_configurations_by_default() -> None:
    assert bucket("ns/a").output.endswith("-of-16\n")


def test_a_last_line_without_its_end_and_line_ends_of_windows_are_read() -> None:
    plain = bucket("ns/a", "ns/b").output
    assert bucket("-", stdin=b"ns/a\r\nns/b").output == plain
    assert bucket("ns/a", "-", stdin=b"ns/b\n").output == plain


def test_a_running_fleet_gives_the_holder_and_a_dash_where_there_is_none() -> None:
    keys = [f"ns/{number}" for number in range(40)]
    rows = [
        line.split("\t") for line in bucket("--total", "4", *keys, leases=leases_of(4)).output.splitlines()
    ]
    assert {row[2] for row in rows} == {"worker-1_10.0.0.7", "-"}
    assert {row[1] for row in rows if row[2] == "-"} == {bucket_names(4)[-1]}


@pytest.mark.parametrize("leases", [away(), leases_of(4, is_alive=False), leases_of(8)])
def test_without_such_a_fleet_there_are_two_columns(leases: MemoryLeases) -> None:
    assert bucket("--total", "4", "ns/a", leases=leases).output.count("\t") == 1


@pytest.mark.parametrize(
    ("stdin", "problem"),
    [
        (b"ns/a\nns/\xff\n", "line 2 is not UTF-8 text"),
        (b"x" * (1 << 20) + b"yz", "line 1 is longer than"),
    ],
)
def test_a_line_that_is_no_key_is_named(stdin: bytes, problem: str) -> None:
    result = bucket("-", stdin=stdin)
    assert isinstance(result.exception, UsageError)
    assert problem in str(result.exception)


def test_what_came_before_a_bad_line_is_printed() -> None:
    assert bucket("-", stdin=b"ns/a\n\xff\n").output.startswith("ns/a\t")


@pytest.mark.parametrize(
    "arguments", [[], [""], ["ns/a", ""], ["ns/\udcff"], ["--total", "0", "x"], ["--total", "2049", "x"]]
)
def test_wrong_usage_is_one_line_and_status_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["bucket", *arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith("vmscaler: ")
    assert error.count("\n") == 1
