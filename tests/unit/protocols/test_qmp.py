"""QMP's lines and messages, sans I/O."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import InvalidInput
from app.protocols.qmp import (
    MAX_LINE_BYTES,
    Answer,
    Event,
    Greeting,
    Lines,
    Refusal,
    read_message,
    write_command,
)

WHERE = "QEMU at here"


def message(**fields: object) -> bytes:
    return json.dumps(fields).encode()


def taken(lines: Lines) -> list[bytes]:
    found = []
    while (line := lines.take()) is not None:
        found.append(line)
    return found


@given(
    st.lists(st.binary(max_size=20).map(lambda each: each.replace(b"\n", b"").strip()), max_size=6),
    st.integers(1, 7),
)
def test_lines_are_the_same_in_whatever_pieces_they_come(texts: list[bytes], size: int) -> None:
    whole = b"".join(text + b"\r\n" for text in texts)
    lines, found = Lines(WHERE), []
    for at in range(0, len(whole), size):
        lines.feed(whole[at : at + size])
        found += taken(lines)
    assert found == [text for text in texts if text]


def test_a_line_without_end_is_refused_when_it_is_too_long_and_not_kept() -> None:
    lines = Lines(WHERE)
    for _ in range(MAX_LINE_BYTES // 65_536):
        lines.feed(b"x" * 65_536)
    with pytest.raises(InvalidInput, match="over 1048576 bytes"):
        lines.feed(b"x")
    lines.feed(b"y\n")
    assert taken(lines) == [b"y"]


def test_the_greeting_tells_the_version() -> None:
    greeting = message(
        QMP={"version": {"qemu": {"major": 7, "minor": 2, "micro": 1}}, "capabilities": ["oob"]}
    )
    assert read_message(greeting, WHERE) == Greeting((7, 2))


def test_an_answer_and_an_error_carry_the_tag_of_their_command() -> None:
    assert read_message(message(**{"return": {"a": 1}, "id": 7}), WHERE) == Answer({"a": 1}, 7)
    refused = read_message(message(error={"class": "DeviceNotFound", "desc": "no\x1b[31m"}, id=8), WHERE)
    assert isinstance(refused, Refusal)
    assert (refused.error_class, refused.tag) == ("DeviceNotFound", 8)
    assert "\x1b" not in refused.text


@pytest.mark.parametrize("kind", [None, 5, "", "Bad\nClass", "x" * 500])
def test_an_error_of_no_known_kind_is_a_generic_one(kind: object) -> None:
    refused = read_message(message(error={"class": kind, "desc": "no such device"}), WHERE)
    assert refused == Refusal("GenericError", "no such device", None)


def test_an_event_has_its_data() -> None:
    event = read_message(message(event="DEVICE_DELETED", data={"device": "x"}, timestamp={}), WHERE)
    assert event == Event("DEVICE_DELETED", {"device": "x"})


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"hello",
        b"[]",
        b"{}",
        b'{"QMP": 1}',
        b'{"QMP": {"version": {"qemu": {"major": "7", "minor": true}}}}',
        b'{"event": 5}',
        b'{"event": "X", "data": []}',
        b'{"error": "no"}',
        b"\xff\xfe",
        b'{"return": NaN}',
        b"[" * 5000,
    ],
)
def test_what_is_no_qmp_is_an_error_that_names_the_peer(line: bytes) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_message(line, WHERE)
    assert str(caught.value).startswith(WHERE)


@given(st.binary(max_size=200))
def test_no_line_makes_anything_but_a_message_or_that_error(line: bytes) -> None:
    with contextlib.suppress(InvalidInput):
        assert isinstance(read_message(line, WHERE), Greeting | Event | Answer | Refusal)


def test_a_command_is_one_line_with_its_tag() -> None:
    line = write_command("qom-get", {"path": "/objects/a\nb"}, 3)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert json.loads(line) == {"execute": "qom-get", "id": 3, "arguments": {"path": "/objects/a\nb"}}
    assert json.loads(write_command("quit", {}, 4)) == {"execute": "quit", "id": 4}
