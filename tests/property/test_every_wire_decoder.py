"""Whatever a peer sends, each decoder gives a message or its declared error, and soon."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.adapters.http_body import MAX_BODY_BYTES, Reader, read_response
from app.core.resources import resources
from app.errors import InvalidInput, PeerRefused, PeerTimedOut
from app.protocols import informant
from app.protocols.monitor_handshake import decode_range, decode_version
from app.protocols.monitor_wire import decode_from_agent, decode_from_monitor
from app.protocols.prometheus_text import read_sample
from app.protocols.quantity import parse_bytes, parse_milli_cpu
from app.protocols.scheduler import ProtocolVersion, decode_request, decode_response

Decoder = Callable[[bytes], object]


def response_of(version: ProtocolVersion) -> Decoder:
    return lambda data: decode_response(data, version, target=resources(250, 1), slot_bytes=1 << 30)


DECODERS: dict[str, Decoder] = {
    "monitor: from the agent": decode_from_agent,
    "monitor: from the monitor": decode_from_monitor,
    "monitor: range": decode_range,
    "monitor: version": decode_version,
    "scheduler: request": decode_request,
    "scheduler: response v2.0": response_of(ProtocolVersion.V2_0),
    "scheduler: response v5.0": response_of(ProtocolVersion.V5_0),
    "informant: agent": informant.decode_agent_desc,
    "informant: size": informant.decode_resources,
    "informant: registered": informant.decode_registered,
    "informant: unregistered": informant.decode_unregistered,
    "informant: downscale": informant.decode_downscale_result,
    "informant: expected id": informant.decode_expected_id,
    "informant: agent's answer": informant.decode_agent_answer,
    "metrics page": lambda data: read_sample(data, "node_"),
    "quantity: CPU": lambda data: parse_milli_cpu(data.decode("latin-1")),
    "quantity: bytes": lambda data: parse_bytes(data.decode("latin-1")),
}

EACH = pytest.mark.parametrize("decode", DECODERS.values(), ids=DECODERS)

NAMES = [
    *("type", "id", "content", "granted", "target", "cpu", "mem", "ok", "Status", "error", "min", "max"),
    *("version", "protoVersion", "pod", "name", "namespace", "resources", "vCPUs", "permit", "migrate"),
    *("agentID", "agentServeAddr", "memory", "data", "sequenceNumber", "expectedID", "metricsMethod"),
]
WORDS = st.sampled_from(
    ["HealthCheck", "DownscaleRequest", "DownscaleResult", "UpscaleNotification", "1e999"]
)
LEAVES = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9) | WORDS | st.just(10**400)
)
DOCUMENTS = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=6),
    max_leaves=25,
).map(lambda value: json.dumps(value).encode())
MESSAGES = (
    st.binary(max_size=80)
    | DOCUMENTS
    | st.tuples(DOCUMENTS, st.binary(max_size=8)).map(lambda pair: pair[0] + pair[1])
    | st.tuples(DOCUMENTS, st.integers(0, 60)).map(lambda pair: pair[0][: pair[1]])
)

HARD = {
    "deep lists": b"[" * 60_000,
    "deep objects": b'{"a":' * 12_000,
    "deep and whole": b"[" * 30_000 + b"]" * 30_000,
    "deep content": b'{"type":"HealthCheck","id":2,"content":' + b"[" * 30_000 + b"]" * 30_000 + b"}",
    "long text": b'{"type":"' + b"x" * 65_000 + b'","id":2}',
    "too long": b'"' + b"x" * (2 << 20) + b'"',
    "many digits": b'{"type":"HealthCheck","id":' + b"9" * 60_000 + b"}",
    "many quotes": b'"' * 65_000,
    "many backslashes": b'"' + b"\\" * 65_001 + b'"',
    "no UTF-8": b'{"type":"\xff\xfe","id":2}',
    "surrogate": b'{"type":"\\ud800","id":2}',
    "NaN": b'{"type":"HealthCheck","id":NaN}',
    "zeros": bytes(60_000),
}


@EACH
@given(data=MESSAGES)
def test_a_message_or_the_declared_error(decode: Decoder, data: bytes) -> None:
    with contextlib.suppress(InvalidInput):
        assert decode(data) is not None


@EACH
@pytest.mark.parametrize("data", HARD.values(), ids=HARD)
def test_what_is_made_to_hurt_is_an_error_or_a_message_at_once(decode: Decoder, data: bytes) -> None:
    before = time.process_time()
    with contextlib.suppress(InvalidInput):
        assert decode(data) is not None
    # Some milliseconds are usual; a decoder that is quadratic in 64 KB would take minutes.
    assert time.process_time() - before < 5


LINES = st.sampled_from(
    [
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.0 200\r\n",
        b"HTTP/1.1 404 no\r\n",
        b"Content-Length: 5\r\n",
        b"Content-Length: -1\r\n",
        b"Content-Length: 99999999999999999999\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Connection: close\r\n",
        b"\r\n",
        b"5\r\nhello\r\n",
        b"0\r\n\r\n",
        b"ffffffff\r\n",
        b"hello",
    ]
)


@given(st.lists(LINES | st.binary(max_size=20), max_size=12).map(b"".join))
def test_any_bytes_are_a_page_or_a_refusal(data: bytes) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(data)
        theirs.shutdown(socket.SHUT_WR)
        with contextlib.suppress(PeerRefused, PeerTimedOut):
            page, _ = read_response(Reader(ours, "peer", time.monotonic() + 60))
            assert len(page) <= MAX_BODY_BYTES
