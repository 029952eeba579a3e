"""The permit protocol's decoders: total against rubbish."""

from __future__ import annotations

import contextlib
import json

from hypothesis import given
from hypothesis import strategies as st

from app.core.resources import resources
from app.errors import InvalidInput
from app.protocols.scheduler import (
    PermitRequest,
    PermitResponse,
    ProtocolVersion,
    decode_request,
    decode_response,
)

REQUEST_KEYS = [
    "protoVersion",
    "pod",
    "name",
    "namespace",
    "resources",
    "lastPermit",
    "computeUnit",
    "metrics",
]
OTHER_KEYS = ["vCPUs", "mem", "permit", "resourceUnit", "migrate", "loadAvg1M"]
KEYS = st.sampled_from([*REQUEST_KEYS, *OTHER_KEYS])
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just("250m")
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner), max_leaves=20
)
BODIES = st.binary(max_size=60) | VALUES.map(lambda value: json.dumps(value).encode())


@given(BODIES, st.sampled_from(ProtocolVersion))
def test_any_body_is_a_message_or_a_declared_error(body: bytes, version: ProtocolVersion) -> None:
    for decode in (
        decode_request,
        lambda data: decode_response(data, version, target=resources(1000, 1), slot_bytes=2**30),
    ):
        message: object = None
        with contextlib.suppress(InvalidInput):
            message = decode(body)
        assert message is None or isinstance(message, PermitRequest | PermitResponse)
