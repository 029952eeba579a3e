"""The server's half of a websocket over a raw socket, frame by frame, for tests that misbehave on purpose."""

from __future__ import annotations

import base64
import hashlib
import json
import socket
import struct
from collections.abc import Callable

from tests.fakes.raw_peer import Handler, read_exactly, read_head

TEXT, BINARY, CLOSE, PING, CONTINUATION = 1, 2, 8, 9, 0


def upgrade(connection: socket.socket) -> bytes:
    """Accept the upgrade; gives the request's head."""
    head = read_head(connection)
    key = next(
        line.split(b": ")[1] for line in head.split(b"\r\n") if line.lower().startswith(b"sec-websocket-key")
    )
    accept = base64.b64encode(hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
    connection.sendall(
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Set-Cookie: a=b; domain=127.0.0.1\r\nSec-WebSocket-Accept: " + accept + b"\r\n\r\n"
    )
    return head


def frame(payload: bytes, opcode: int = TEXT, *, is_last: bool = True, claim: int | None = None) -> bytes:
    """A frame; `claim` is a length that it only says it has."""
    length = len(payload) if claim is None else claim
    first = bytes([opcode | (0x80 if is_last else 0)])
    if length < 126:
        return first + bytes([length]) + payload
    if length < 65536:
        return first + b"\x7e" + struct.pack("!H", length) + payload
    return first + b"\x7f" + struct.pack("!Q", length) + payload


def read_frame(connection: socket.socket) -> tuple[int, bytes]:
    """Opcode and payload of the next frame; (-1, b"") at the end of the stream."""
    head = read_exactly(connection, 2)
    if len(head) < 2:
        return -1, b""
    length = head[1] & 0x7F
    if length == 126:
        length = struct.unpack("!H", read_exactly(connection, 2))[0]
    mask = read_exactly(connection, 4)
    data = read_exactly(connection, length)
    return head[0] & 0x0F, bytes(byte ^ mask[at % 4] for at, byte in enumerate(data))


def read_json_frame(connection: socket.socket) -> dict[str, object]:
    """The next message as JSON; empty at the end or at a close."""
    opcode, payload = read_frame(connection)
    document: dict[str, object] = json.loads(payload) if opcode in (TEXT, BINARY) else {}
    return document


def read_close_code(connection: socket.socket) -> int | None:
    """Skip messages until a close frame; its code. None if the stream ends without one."""
    while True:
        opcode, payload = read_frame(connection)
        if opcode == CLOSE:
            return int.from_bytes(payload[:2], "big")
        if opcode < 0:
            return None


def greeted(converse: Callable[[socket.socket], None]) -> Handler:
    """A monitor that upgrades, agrees on version 1, and then does as it likes."""

    def handle(connection: socket.socket, number: int) -> None:
        upgrade(connection)
        read_frame(connection)
        connection.sendall(frame(b'{"version": 1}'))
        converse(connection)

    return handle
