"""JSON from peers: bounds, and one kind of error."""

from __future__ import annotations

import pytest

from app.errors import InvalidInput
from app.protocols.bounded_json import MAX_DEPTH, read_json, read_json_object, write_json


def test_a_value_with_blanks_and_a_line_feed_around_it_is_read() -> None:
    assert read_json(b' {"a": [1, 2.5, null]}\n', max_bytes=100, where="x") == {"a": [1, 2.5, None]}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"nul",
        b"{} {}",
        b"\xff",
        b'"\xed\xa0\x80"',
        b"\xef\xbb\xbf{}",
        '{"a":1}'.encode("utf-16"),
        b"NaN",
        b"-Infinity",
        b"1" * 5000,
        b"[" * 33 + b"]" * 33,
        b"[" * 5000,
        b'{"a":' * 40 + b"1" + b"}" * 40,
        b'"a\nb"',
        b" " * 9001,
    ],
)
def test_what_is_no_bounded_json_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_json(data, max_bytes=9000, where="peer")
    assert caught.value.where == "peer"


def test_brackets_in_strings_and_in_breadth_do_not_count_as_depth() -> None:
    data = b'{"a": "' + b"[" * 100 + b'\\"[", "b": [' + b",".join([b"[]"] * 100) + b"]}"
    assert read_json(data, max_bytes=9000, where="x") is not None


def test_the_deepest_value_that_is_allowed_is_read() -> None:
    assert read_json(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH, max_bytes=100, where="x") is not None


@pytest.mark.parametrize("data", [b"[]", b"1", b'"a"', b"null"])
def test_what_is_no_object_is_refused_where_one_is_expected(data: bytes) -> None:
    with pytest.raises(InvalidInput, match="not a JSON object"):
        read_json_object(data, max_bytes=100, where="x")


def test_lone_surrogates_can_be_written() -> None:
    assert write_json({"a": "é\ud800"}) == '{"a":"é?"}'.encode()
