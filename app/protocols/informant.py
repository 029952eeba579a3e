"""Messages of the informant's REST protocol, version 1 (`spec/informant.md`), both directions, without I/O.

Towards agents we read as the original does: missing and null fields are zero values, unknown fields and
whatever follows the first JSON value are ignored, a field of a wrong type is an error.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import Enum

from app.errors import InvalidInput
from app.protocols.bounded_json import MAX_DEPTH, write_json
from app.protocols.quantity import format_milli_cpu, parse_bytes, parse_milli_cpu

PROTOCOL_VERSION = 1
"""The only one that there is."""
MAX_BODY_BYTES = 65_536
"""Longest body, of a request or an answer."""
NIL_ID = "00000000-0000-0000-0000-000000000000"
"""What a missing agent id stands for."""
MAX_TEXT_CHARACTERS = 4096
"""Where a status text of ours is cut."""

_UUID = re.compile(
    r"(?:urn:uuid:)?([0-9a-f]{8})-([0-9a-f]{4})-([0-9a-f]{4})-([0-9a-f]{4})-([0-9a-f]{12})", re.IGNORECASE
)
_PLAIN_UUID = re.compile(r"([0-9a-f]{8})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{12})", re.IGNORECASE)
_ADDRESS = re.compile(r"([A-Za-z0-9](?:[A-Za-z0-9._-]{0,252})|\[[0-9A-Fa-f:.]{2,45}\]):([1-9][0-9]{0,4})")
_TOKENS = re.compile(r'"(?:[^"\\]|\\.)*+"?+|[\[{\]}]', re.DOTALL)
_DECODER = json.JSONDecoder(parse_constant=lambda name: _refuse(name))
_BLANKS = " \t\r\n"


class AgentRequest(Enum):
    """What an informant asks of an agent: method and path."""

    ID = ("GET", "/id")
    SUSPEND = ("POST", "/suspend")
    RESUME = ("POST", "/resume")

    @property
    def method(self) -> str:
        """Of HTTP."""
        return self.value[0]

    @property
    def path(self) -> str:
        """Of the URL."""
        return self.value[1]


@dataclass(frozen=True, slots=True)
class AgentDesc:
    """Who an agent is and where it is called.

    Attributes:
        agent_id: a uuid in its usual lower-case spelling.
        address: as sent; `parse_address` says whether it may be used.
        min_version: of the protocol; the range includes both ends.
    """

    agent_id: str
    address: str
    min_version: int
    max_version: int

    def shared_version(self) -> int | None:
        """The version to talk in, or None."""
        return PROTOCOL_VERSION if self.min_version <= PROTOCOL_VERSION <= self.max_version else None


@dataclass(frozen=True, slots=True)
class RawResources:
    """A size of the VM: milli-vCPU and bytes."""

    milli_cpu: int
    mem: int


@dataclass(frozen=True, slots=True)
class AgentAnswer:
    """An agent's answer to any request; 0 is no valid sequence number."""

    agent_id: str
    sequence_number: int


def parse_address(text: str) -> tuple[str, int]:
    """Host and port of an `agentServeAddr`; an IPv6 address stands in brackets there, and without them here.

    Raises:
        InvalidInput: no bare `host:port`: a scheme, a user, a path, a zone, a port out of range.
    """
    found = _ADDRESS.fullmatch(text)
    if found is None or int(found[2]) > 65_535:
        raise InvalidInput("agentServeAddr", "not a bare host:port")
    return found[1].strip("[]"), int(found[2])


def decode_agent_desc(data: bytes) -> AgentDesc:
    """The body of `/register` and `/unregister`. Raises InvalidInput: answer 400 `bad JSON`."""
    fields = _object(_first_value(data))
    return AgentDesc(
        _uuid(fields, "agentID"),
        _text(fields, "agentServeAddr"),
        _whole_number(fields, "minProtoVersion", 2**32 - 1),
        _whole_number(fields, "maxProtoVersion", 2**32 - 1),
    )


def encode_agent_desc(desc: AgentDesc) -> bytes:
    """What an agent sends to register and to unregister."""
    return write_json(
        {
            "agentID": desc.agent_id,
            "agentServeAddr": desc.address,
            "minProtoVersion": desc.min_version,
            "maxProtoVersion": desc.max_version,
        }
    )


def decode_resources(data: bytes) -> RawResources:
    """The body of `/downscale` and `/upscale`. Raises InvalidInput: answer 400 `bad JSON`."""
    fields = _object(_first_value(data))
    cpu, memory = fields.get("cpu"), fields.get("memory")
    return RawResources(
        0 if cpu is None else parse_milli_cpu(cpu), 0 if memory is None else parse_bytes(memory)
    )


def encode_resources(size: RawResources) -> bytes:
    """A size as an agent sends it."""
    return write_json({"cpu": format_milli_cpu(size.milli_cpu), "memory": size.mem})


def encode_registered(version: int, metrics_port: int) -> bytes:
    """The answer to `/register`; the port is where the VM's metrics page is."""
    return write_json({"protoVersion": version, "metricsMethod": {"prometheus": {"port": metrics_port}}})


def decode_registered(data: bytes) -> tuple[int, int]:
    """Version and metrics port, as an agent reads them.

    Raises:
        InvalidInput: unreadable, a version that we do not speak, or no port.
    """
    fields = _object(_first_value(data))
    version = _whole_number(fields, "protoVersion", 2**32 - 1)
    if version != PROTOCOL_VERSION:
        raise InvalidInput("protoVersion", "a version that was not offered")
    method = _object(fields.get("metricsMethod"))
    port = _whole_number(_object(method.get("prometheus")), "port", 65_535)
    if port == 0:
        raise InvalidInput("metricsMethod", "no port")
    return version, port


def encode_unregistered(*, was_active: bool) -> bytes:
    """The answer to `/unregister`."""
    return write_json({"wasActive": was_active})


def decode_unregistered(data: bytes) -> bool:
    """Whether the agent was the current one; a missing word is no. Raises InvalidInput."""
    return _truth(_object(_first_value(data)), "wasActive")


def encode_downscale_result(*, is_allowed: bool, status: str) -> bytes:
    """The answer to `/downscale`; `status` is for people and may be cut."""
    return write_json({"Ok": is_allowed, "Status": status[:MAX_TEXT_CHARACTERS]})


def decode_downscale_result(data: bytes) -> tuple[bool, str]:
    """Whether it is allowed, and the text for people; a missing word is no. Raises InvalidInput."""
    fields = _object(_first_value(data))
    return _truth(fields, "Ok"), _text(fields, "Status")


def encode_expected_id(agent_id: str) -> bytes:
    """The body of `/suspend` and `/resume`."""
    return write_json({"expectedID": agent_id})


def decode_expected_id(data: bytes) -> str:
    """Whom an informant means. Raises InvalidInput: answer 400."""
    return _uuid(_object(_first_value(data)), "expectedID")


def encode_agent_answer(answer: AgentAnswer) -> bytes:
    """An agent's answer, wrapped."""
    return write_json({"data": {"agentID": answer.agent_id}, "sequenceNumber": answer.sequence_number})


def decode_agent_answer(data: bytes) -> AgentAnswer:
    """Unwrap an agent's answer; a missing number is 0, which is an error to be found by the caller.

    Raises:
        InvalidInput: it can't be read.
    """
    fields = _object(_first_value(data))
    number = _whole_number(fields, "sequenceNumber", 2**64 - 1)
    return AgentAnswer(_uuid(_object(fields.get("data")), "agentID"), number)


def _first_value(data: bytes) -> object:
    """The first JSON value; what follows it is not looked at."""
    if len(data) > MAX_BODY_BYTES:
        raise InvalidInput("body", f"over {MAX_BODY_BYTES} bytes")
    text = data.decode("utf-8", "replace").lstrip(_BLANKS)
    if _is_too_deep(text):
        raise InvalidInput("body", f"nested more than {MAX_DEPTH} deep")
    try:
        value: object = _DECODER.raw_decode(text)[0]
    except ValueError as err:
        raise InvalidInput("body", "not JSON") from err
    return value


def _is_too_deep(text: str) -> bool:
    """Whether the first value nests deeper than `MAX_DEPTH`."""
    depth = 0
    for token in _TOKENS.finditer(text):
        if token[0] in ("[", "{"):
            depth += 1
        elif token[0] in ("]", "}"):
            depth -= 1
        if depth > MAX_DEPTH:
            return True
        if depth <= 0:
            return False
    return False


def _refuse(name: str) -> object:
    raise ValueError(name)


def _object(value: object) -> dict[str, object]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidInput("body", "an object was expected")
    return value


def _uuid(fields: dict[str, object], key: str) -> str:
    value = fields.get(key)
    if value is None:
        return NIL_ID
    if not isinstance(value, str):
        raise InvalidInput(key, "no text")
    bare = value[1:-1] if value.startswith("{") and value.endswith("}") else value
    found = _UUID.fullmatch(bare) or _PLAIN_UUID.fullmatch(bare)
    if found is None:
        raise InvalidInput(key, "no uuid")
    return "-".join(found.groups()).lower()


def _text(fields: dict[str, object], key: str) -> str:
    value = fields.get(key)
    if value is not None and not isinstance(value, str):
        raise InvalidInput(key, "no text")
    return value or ""


def _truth(fields: dict[str, object], key: str) -> bool:
    value = fields.get(key)
    if value is not None and not isinstance(value, bool):
        raise InvalidInput(key, "neither true nor false")
    return bool(value)


def _whole_number(fields: dict[str, object], key: str, maximum: int) -> int:
    value = fields.get(key)
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= maximum:
        raise InvalidInput(key, "no whole number in range")
    return value
