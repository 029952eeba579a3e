"""The informant's messages: zero values, what is ignored, what is refused."""

from __future__ import annotations

import json

import pytest

from app.errors import InvalidInput
from app.protocols.informant import (
    MAX_BODY_BYTES,
    MAX_TEXT_CHARACTERS,
    NIL_ID,
    AgentAnswer,
    AgentDesc,
    AgentRequest,
    RawResources,
    decode_agent_answer,
    decode_agent_desc,
    decode_expected_id,
    decode_registered,
    decode_resources,
    encode_agent_answer,
    encode_agent_desc,
    encode_downscale_result,
    encode_expected_id,
    encode_registered,
    encode_resources,
    encode_unregistered,
    parse_address,
)

ID = "6a1c5f6e-1111-4222-8333-0123456789ab"
DESC = AgentDesc(ID, "10.0.0.7:8080", 1, 1)


def test_a_description_comes_back_as_it_was_sent() -> None:
    assert decode_agent_desc(encode_agent_desc(DESC)) == DESC


@pytest.mark.parametrize("body", [b"{}", b"null", b' \n{"agentID": null, "minProtoVersion": null}'])
def test_missing_and_null_fields_are_zero_values(body: bytes) -> None:
    assert decode_agent_desc(body) == AgentDesc(NIL_ID, "", 0, 0)
    assert decode_resources(body) == RawResources(0, 0)
    assert decode_agent_answer(body) == AgentAnswer(NIL_ID, 0)


@pytest.mark.parametrize(
    "behind", [b" and more", b"{]", b"\xff\xfe", b"[" * 1000, b'"' * 1001, b'"' + b"\\" * 999]
)
def test_text_after_the_first_value_is_ignored(behind: bytes) -> None:
    assert decode_agent_desc(encode_agent_desc(DESC) + behind) == DESC


def test_unknown_fields_are_ignored() -> None:
    body = json.dumps({"cpu": 1, "memory": "1Gi", "more": {"a": [1, "]"]}}).encode()
    assert decode_resources(body) == RawResources(1000, 2**30)


@pytest.mark.parametrize(
    "spelling",
    [ID.upper(), f"urn:uuid:{ID}", f"{{{ID}}}", ID.replace("-", "")],
)
def test_every_usual_spelling_of_a_uuid_is_the_same_agent(spelling: str) -> None:
    assert decode_expected_id(encode_expected_id(spelling)) == ID


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"   ",
        b"[]",
        b"5",
        b'"text"',
        b"{",
        b'{"agentID": "nobody"}',
        b'{"agentID": ""}',
        b'{"agentID": 7}',
        b'{"agentServeAddr": 7}',
        b'{"minProtoVersion": "1"}',
        b'{"minProtoVersion": 1.0}',
        b'{"minProtoVersion": true}',
        b'{"maxProtoVersion": -1}',
        b'{"maxProtoVersion": 4294967296}',
        b'{"x": NaN}',
        b'{"x": ' + b"[" * 40 + b"]" * 40 + b"}",
        b'{"x": ' + b"9" * 5000 + b"}",
        b"\xef\xbb\xbf{}",
        b" " * MAX_BODY_BYTES + b"{}",
    ],
)
def test_what_is_no_description_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidInput):
        decode_agent_desc(body)


@pytest.mark.parametrize("body", [b'{"cpu": "x"}', b'{"memory": -1}', b'{"memory": {}}', b'{"cpu": "1 "}'])
def test_a_quantity_that_does_not_parse_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidInput):
        decode_resources(body)


@pytest.mark.parametrize(
    ("milli_cpu", "mem", "cpu"), [(250, 7, "250m"), (4000, 2**40, 4), (0, 0, 0), (1500, 1, "1500m")]
)
def test_a_size_comes_back_as_it_was_sent(milli_cpu: int, mem: int, cpu: object) -> None:
    body = encode_resources(RawResources(milli_cpu, mem))
    assert json.loads(body) == {"cpu": cpu, "memory": mem}
    assert decode_resources(body) == RawResources(milli_cpu, mem)


def test_the_answers_are_spelled_as_the_protocol_says() -> None:
    assert json.loads(encode_registered(1, 9100)) == {
        "protoVersion": 1,
        "metricsMethod": {"prometheus": {"port": 9100}},
    }
    assert json.loads(encode_unregistered(was_active=True)) == {"wasActive": True}
    assert json.loads(encode_downscale_result(is_allowed=False, status="no")) == {"Ok": False, "Status": "no"}
    assert json.loads(encode_agent_answer(AgentAnswer(ID, 3))) == {
        "data": {"agentID": ID},
        "sequenceNumber": 3,
    }


def test_a_long_status_is_cut() -> None:
    body = encode_downscale_result(is_allowed=True, status="x" * 100_000)
    assert len(json.loads(body)["Status"]) == MAX_TEXT_CHARACTERS


def test_the_answer_to_a_registration_is_read_back() -> None:
    assert decode_registered(encode_registered(1, 9100)) == (1, 9100)
    for body in (b"{}", b'{"protoVersion": 2}', b'{"protoVersion": 1, "metricsMethod": {"prometheus": {}}}'):
        with pytest.raises(InvalidInput):
            decode_registered(body)


@pytest.mark.parametrize("number", [-1, 2**64, 1.5, "1", True])
def test_a_sequence_number_is_a_whole_one(number: object) -> None:
    with pytest.raises(InvalidInput):
        decode_agent_answer(json.dumps({"data": {"agentID": ID}, "sequenceNumber": number}).encode())


def test_the_highest_sequence_number_is_read() -> None:
    assert decode_agent_answer(encode_agent_answer(AgentAnswer(ID, 2**64 - 1))).sequence_number == 2**64 - 1


@pytest.mark.parametrize(
    ("low", "high", "shared"), [(1, 1, 1), (0, 9, 1), (0, 0, None), (2, 9, None), (2, 1, None)]
)
def test_the_version_is_ours_if_the_range_has_it(low: int, high: int, shared: int | None) -> None:
    assert AgentDesc(ID, "h:1", low, high).shared_version() == shared


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10.0.0.7:8080", ("10.0.0.7", 8080)),
        ("agent-1.example.org:1", ("agent-1.example.org", 1)),
        ("[fd00::1]:65535", ("fd00::1", 65535)),
    ],
)
def test_a_bare_address_is_taken(text: str, expected: tuple[str, int]) -> None:
    assert parse_address(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "host",
        "host:",
        ":80",
        "host:0",
        "host:65536",
        "host:080",
        "host:80/path",
        "host:80?x",
        "host:80#x",
        "http://host:80",
        "user@host:80",
        "user:word@host:80",
        "host:80@evil:80",
        "ho st:80",
        "host:80\n",
        "host\r\nX: y:80",
        "::1:80",
        "[::1%eth0]:80",
        "[host]:80",
        "hөst:80",
        "host:8٠",
        "\ud800:80",
        "a" * 254 + ":80",
    ],
)
def test_anything_but_host_and_port_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        parse_address(text)


def test_a_request_knows_its_method_and_path() -> None:
    assert [(each.method, each.path) for each in AgentRequest] == [
        ("GET", "/id"),
        ("POST", "/suspend"),
        ("POST", "/resume"),
    ]
