"""Traces out of CSV, and every mistake in one with its line."""

from __future__ import annotations

import io

import pytest

from app.errors import InvalidInput
from app.services.trace_source import MAX_LINE_BYTES, read_trace
from app.simulation.trace import Trace


def read(text: str | bytes) -> Trace:
    return read_trace(io.BytesIO(text.encode() if isinstance(text, str) else text), "t.csv")


@pytest.mark.parametrize(
    "text",
    [
        "timestamp,value\n2014-02-14 14:27:00,1.5\n2014-02-14 14:32:00,2\n",
        "2014-02-14T14:27:00Z,1.5\n2014-02-14T15:32:00+01:00,2",
        "1392388020,1.5\r\n1392388320,2\r\n",
        "\ufefftimestamp,value\n\n1392388020.0, 1.5\n1392388320 ,2e0\n\n",
        '"time","cpu"\n"2014-02-14 14:27","1.5"\n"2014-02-14 14:32","2"\n',
    ],
)
def test_times_are_iso_or_unix_seconds_and_a_header_is_passed_over(text: str) -> None:
    trace = read(text)
    assert trace.times_ms == (1_392_388_020_000, 1_392_388_320_000)
    assert trace.values == (1.5, 2.0)


def test_of_samples_with_the_same_time_the_last_one_counts() -> None:
    trace = read("0,1\n60,2\n60,3\n120,4\n")
    assert trace.values == (1.0, 3.0, 4.0)


@pytest.mark.parametrize(
    ("text", "where", "problem"),
    [
        ("", "t.csv", "has no sample"),
        ("timestamp,value\n", "t.csv", "has no sample"),
        ("0,1\n60,nan\n", "t.csv:2", "not finite"),
        ("0,1\n60,inf\n", "t.csv:2", "not finite"),
        ("0,1\n60,-0.5\n", "t.csv:2", "negative"),
        ("0,1\n60,1e9\n", "t.csv:2", "per cent"),
        ("0,1\n60,x\n", "t.csv:2", "not a number"),
        ("0,1\n60,1_0\n", "t.csv:2", "not a number"),
        ("0,1\n60,٥\n", "t.csv:2", "not a number"),
        ("0,1\n٦٠,5\n", "t.csv:2", "no time"),
        ("0,1\n60\n", "t.csv:2", "1 fields"),
        ("0,1\n60,1,2\n", "t.csv:2", "3 fields"),
        ("0,1\nyesterday,1\n", "t.csv:2", "no time"),
        ("timestamp,value\n2014-13-01 00:00:00,1\n", "t.csv:2", "no time"),
        ("60,1\n0,1\n", "t.csv:2", "goes back"),
        ("1392388020000,1\n", "t.csv:1", "between 1970"),
        (b"0,1\n60,\xff\n", "t.csv:2", "UTF-8"),
        ("0," + "1" * MAX_LINE_BYTES, "t.csv:1", "longer than"),
        ("0,1\n\x1b[31m,1\n", "t.csv:2", r"\x1b"),
    ],
)
def test_a_mistake_is_told_with_its_line(text: str | bytes, where: str, problem: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        read(text)
    assert raised.value.where == where
    assert problem in raised.value.problem
    assert raised.value.problem.isprintable()
