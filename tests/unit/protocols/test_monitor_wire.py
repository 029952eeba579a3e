"""Messages of the monitor protocol: both shapes, and what ends a connection."""

from __future__ import annotations

import json

import pytest

from app.protocols.bounded_json import MAX_DEPTH
from app.protocols.monitor_health import HEALTH_CHECK_PERIOD_S
from app.protocols.monitor_wire import (
    MAX_ID,
    MAX_MONITOR_PROTOCOL_VERSION,
    MAX_READ_BYTES,
    MAX_SENT_TO_AGENT_BYTES,
    MIN_MONITOR_PROTOCOL_VERSION,
    AgentMessage,
    BadMessage,
    DownscaleRequest,
    DownscaleResult,
    HealthCheck,
    InternalError,
    InvalidMessage,
    MonitorMessage,
    UnknownMessage,
    UpscaleConfirmation,
    UpscaleNotification,
    UpscaleRequest,
    decode_from_agent,
    decode_from_monitor,
    encode_from_agent,
    encode_from_monitor,
)

AGENT: list[tuple[AgentMessage, dict[str, object]]] = [
    (HealthCheck(), {}),
    (UpscaleNotification(1.5, 2**30), {"granted": {"cpu": 1.5, "mem": 2**30}}),
    (DownscaleRequest(0.25, 2**31), {"target": {"cpu": 0.25, "mem": 2**31}}),
    (InvalidMessage("bad"), {"error": "bad"}),
    (InternalError("worse"), {"error": "worse"}),
]
MONITOR: list[tuple[MonitorMessage, dict[str, object]]] = [
    (HealthCheck(), {}),
    (UpscaleConfirmation(), {}),
    (DownscaleResult(True, "fine"), {"Ok": True, "Status": "fine"}),
    (UpscaleRequest(), {}),
    (InvalidMessage("bad"), {"error": "bad"}),
    (InternalError("worse"), {"error": "worse"}),
]


@pytest.mark.parametrize(("message", "content"), AGENT)
def test_the_agents_fields_go_under_content_and_read_back(message: AgentMessage, content: object) -> None:
    data = encode_from_agent(message, 2)
    assert json.loads(data) == {"content": content, "type": type(message).__name__, "id": 2}
    assert decode_from_agent(data + b"\n") == (2, message)


@pytest.mark.parametrize(("message", "fields"), MONITOR)
def test_the_monitors_fields_lie_flat_and_read_back(
    message: MonitorMessage, fields: dict[str, object]
) -> None:
    data = encode_from_monitor(message, 7)
    assert json.loads(data) == {"type": type(message).__name__, "id": 7, **fields}
    assert decode_from_monitor(data) == (7, message)


@pytest.mark.parametrize(
    "fields", ['"Ok":true,"Status":"x"', '"ok":true,"status":"x"', '"OK":true,"sTATUS":"x"']
)
def test_keys_other_than_type_and_id_are_read_in_any_case(fields: str) -> None:
    data = f'{{"type":"DownscaleResult","id":2,{fields}}}'.encode()
    assert decode_from_monitor(data) == (2, DownscaleResult(True, "x"))


def test_the_agents_nested_keys_are_read_in_any_case() -> None:
    data = b'{"Content":{"GRANTED":{"CPU":1,"Mem":2}},"type":"UpscaleNotification","id":2}'
    assert decode_from_agent(data) == (2, UpscaleNotification(1.0, 2))


@pytest.mark.parametrize("tail", ["", ',"Ok":null,"Status":null', ',"unknown":[1]'])
def test_missing_and_null_fields_of_a_monitor_are_false_and_empty(tail: str) -> None:
    data = f'{{"type":"DownscaleResult","id":2{tail}}}'.encode()
    assert decode_from_monitor(data) == (2, DownscaleResult(False, ""))


@pytest.mark.parametrize(
    "content", ["", ',"content":null', ',"content":{}', ',"content":{"target":{"mem":null}}']
)
def test_missing_and_null_fields_of_an_agent_are_zero(content: str) -> None:
    data = f'{{"type":"DownscaleRequest","id":2{content}}}'.encode()
    assert decode_from_agent(data) == (2, DownscaleRequest(0.0, 0))


@pytest.mark.parametrize(
    "name", ["", "healthcheck", "UpscaleResult", "UpscaleNotification", "DownscaleRequest"]
)
def test_a_type_that_no_monitor_sends_is_unknown_to_an_agent(name: str) -> None:
    assert decode_from_monitor(f'{{"type":"{name}","id":3}}'.encode()) == (3, UnknownMessage(name))


@pytest.mark.parametrize("name", ["UpscaleConfirmation", "DownscaleResult", "UpscaleRequest", "x"])
def test_a_type_that_no_agent_sends_is_unknown_to_a_monitor(name: str) -> None:
    assert decode_from_agent(f'{{"type":"{name}","id":3}}'.encode()) == (3, UnknownMessage(name))


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", 1007),
        (b"{", 1007),
        (b"\xff", 1007),
        (b'{"type":"HealthCheck","id":2}{}', 1007),
        (b'{"type":"HealthCheck","id":2,"x":' + b"[" * 40 + b"]" * 40 + b"}", 1007),
        (b"[]", 1011),
        (b"null", 1011),
        (b'{"id":2}', 1011),
        (b'{"type":null,"id":2}', 1011),
        (b'{"type":5,"id":2}', 1011),
        (b'{"Type":"HealthCheck","id":2}', 1011),
        (b'{"type":"HealthCheck"}', 1011),
        (b'{"type":"HealthCheck","ID":2}', 1011),
        (b'{"type":"HealthCheck","id":null}', 1011),
        (b'{"type":"HealthCheck","id":"2"}', 1011),
        (b'{"type":"HealthCheck","id":true}', 1011),
        (b'{"type":"HealthCheck","id":2.5}', 1011),
        (b'{"type":"HealthCheck","id":-2}', 1011),
        (b'{"type":"HealthCheck","id":9007199254740992}', 1011),
        (b" " * (MAX_READ_BYTES + 1), 1009),
    ],
)
def test_a_broken_envelope_ends_the_connection_at_once_on_either_side(data: bytes, code: int) -> None:
    for decode in (decode_from_monitor, decode_from_agent):
        with pytest.raises(BadMessage) as caught:
            decode(data)
        assert (caught.value.close_code, caught.value.message_id) == (code, None)


@pytest.mark.parametrize(
    "text",
    [
        '"type":"DownscaleResult","Ok":1',
        '"type":"DownscaleResult","Ok":"true"',
        '"type":"DownscaleResult","Status":1',
        '"type":"InvalidMessage","error":{}',
        '"type":"InternalError","error":false',
    ],
)
def test_a_monitors_field_of_a_wrong_type_is_complained_of_before_the_end(text: str) -> None:
    with pytest.raises(BadMessage) as caught:
        decode_from_monitor(f'{{"id":4,{text}}}'.encode())
    assert (caught.value.close_code, caught.value.message_id) == (1011, 4)


@pytest.mark.parametrize(
    "content",
    [
        "1",
        "[]",
        '{"granted":1}',
        '{"granted":{"cpu":"1"}}',
        '{"granted":{"cpu":true}}',
        '{"granted":{"cpu":-1}}',
        '{"granted":{"cpu":1e999}}',
        '{"granted":{"cpu":1' + "0" * 400 + "}}",
        '{"granted":{"mem":"1"}}',
        '{"granted":{"mem":1.5}}',
        '{"granted":{"mem":false}}',
        '{"granted":{"mem":-1}}',
        '{"granted":{"mem":18446744073709551616}}',
    ],
)
def test_an_agents_field_of_a_wrong_type_is_complained_of_before_the_end(content: str) -> None:
    with pytest.raises(BadMessage) as caught:
        decode_from_agent(f'{{"type":"UpscaleNotification","id":4,"content":{content}}}'.encode())
    assert (caught.value.close_code, caught.value.message_id) == (1011, 4)


def test_the_longest_message_and_the_highest_id_are_read() -> None:
    data = f'{{"type":"HealthCheck","id":{MAX_ID}}}'.encode()
    assert decode_from_monitor(data + b" " * (MAX_READ_BYTES - len(data))) == (MAX_ID, HealthCheck())


@pytest.mark.parametrize(
    "text", ["x" * 100_000, "\0" * 100_000, "😀" * 100_000, '"' * 100_000, "\ud800" * 100_000]
)
def test_no_text_makes_a_message_longer_than_an_agent_reads(text: str) -> None:
    for message in (DownscaleResult(False, text), InternalError(text), InvalidMessage(text)):
        data = encode_from_monitor(message, MAX_ID)
        assert len(data) <= MAX_SENT_TO_AGENT_BYTES
        assert decode_from_monitor(data)[0] == MAX_ID
    assert len(encode_from_agent(InternalError(text), 2)) <= MAX_SENT_TO_AGENT_BYTES


def test_the_limits_are_the_protocols() -> None:
    assert (MAX_READ_BYTES, MAX_SENT_TO_AGENT_BYTES, MAX_ID) == (65_536, 32_768, 2**53 - 1)
    assert (MAX_DEPTH, HEALTH_CHECK_PERIOD_S) == (32, 5.0)
    assert (MIN_MONITOR_PROTOCOL_VERSION, MAX_MONITOR_PROTOCOL_VERSION) == (1, 1)
