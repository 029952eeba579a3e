"""Reads one HTTP/1.1 response off a socket, within bounds of size and time.

Length, chunked and until-close bodies; no redirects, no compression, no 1xx, no trailers worth reading. Any
status but 200 is an error. The total deadline counts, not the time between two packets.
"""

from __future__ import annotations

import re
import socket
import time

from app.adapters.client_tls import TlsSocket
from app.errors import PeerRefused, PeerTimedOut

MAX_HEAD_BYTES = 16 * 1024
MAX_BODY_BYTES = 1024 * 1024
"""Longest page (`spec/agent.md`)."""
MAX_CHUNKS = 8192
"""A body of 1 MiB in chunks of 128 bytes; more is an attack on our time."""
MAX_CHUNK_LINE_BYTES = 256
_RECEIVE_BYTES = 65_536

_STATUS = re.compile(rb"HTTP/1\.([01]) ([0-9]{3})(?: [^\r\n]*)?")
_LENGTH = re.compile(rb"[0-9]{1,18}")
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;[^\r\n]*)?")


class Reader:
    """Bytes of one answer: what came already, and more on demand until the deadline.

    Args:
        peer: how errors call the other side.
        deadline: on the monotonic clock.
    """

    def __init__(self, connection: socket.socket | TlsSocket, peer: str, deadline: float) -> None:
        self.peer = peer
        self.buffer = bytearray()
        self._socket = connection
        self._deadline = deadline

    def fill(self) -> bool:
        """Wait for more; False at the end of the stream.

        Raises:
            TimeoutError: the deadline has passed.
            OSError: the connection broke.
        """
        remaining = self._deadline - time.monotonic()
        if remaining <= 0:
            raise TimeoutError
        self._socket.settimeout(remaining)
        data = self._socket.recv(_RECEIVE_BYTES)
        self.buffer += data
        return bool(data)

    def need(self) -> None:
        """Wait for more of an answer that has begun.

        Raises:
            PeerTimedOut: the deadline has passed.
            PeerRefused: the peer broke off.
        """
        if not self.try_fill():
            raise PeerRefused(self.peer, "the answer broke off")

    def try_fill(self) -> bool:
        """Like `need`, but the end of the stream is an answer (False)."""
        try:
            return self.fill()
        except TimeoutError as err:
            raise PeerTimedOut(self.peer, "the answer was not complete in time") from err
        except OSError as err:
            raise PeerRefused(self.peer, f"the answer broke off: {err}") from err


def read_response(reader: Reader) -> tuple[bytes, bool]:
    """The body of a 200, and whether the connection can be used again.

    Raises:
        PeerTimedOut: not complete at the deadline.
        PeerRefused: another status, not HTTP, too large, or broken off.
    """
    is_recent, headers = _read_head(reader)
    connection = headers.get(b"connection", b"").lower()
    is_kept = b"close" not in connection and (is_recent or b"keep-alive" in connection)
    if headers.get(b"content-encoding", b"identity").lower() != b"identity":
        raise PeerRefused(reader.peer, "a compressed answer, which was not asked for")
    coding, length = headers.get(b"transfer-encoding"), headers.get(b"content-length")
    if coding is not None:
        if coding.lower() != b"chunked" or length is not None:
            raise PeerRefused(reader.peer, "not HTTP: an unknown transfer coding, or one with a length")
        body = _read_chunks(reader)
    elif length is not None:
        body = _read_length(reader, length)
    else:
        body, is_kept = _read_until_close(reader), False
    # Bytes behind the answer belong to no question: what follows them could not be trusted.
    return body, is_kept and not reader.buffer


def _read_head(reader: Reader) -> tuple[bool, dict[bytes, bytes]]:
    """Whether it is HTTP/1.1, and the headers by lower-case name; takes the head off the buffer."""
    while (end := reader.buffer.find(b"\r\n\r\n", 0, MAX_HEAD_BYTES + 4)) < 0:
        if len(reader.buffer) > MAX_HEAD_BYTES:
            raise PeerRefused(reader.peer, f"not HTTP, or a head over {MAX_HEAD_BYTES} bytes")
        reader.need()
    lines = bytes(reader.buffer[:end]).split(b"\r\n")
    del reader.buffer[: end + 4]
    status = _STATUS.fullmatch(lines[0])
    if status is None:
        raise PeerRefused(reader.peer, "not HTTP")
    code = int(status[2])
    if code != 200:
        raise PeerRefused(reader.peer, f"HTTP status {code}", code=code)
    headers: dict[bytes, bytes] = {}
    for line in lines[1:]:
        name, colon, value = line.partition(b":")
        key = name.lower()
        value = value.strip(b" \t")
        if not colon or name.strip() != name:
            raise PeerRefused(reader.peer, "not HTTP: a broken header")
        if key in (b"content-length", b"transfer-encoding") and headers.get(key, value) != value:
            raise PeerRefused(reader.peer, "not HTTP: two different lengths")
        headers[key] = value
    return status[1] == b"1", headers


def _read_length(reader: Reader, length: bytes) -> bytes:
    if _LENGTH.fullmatch(length) is None:
        raise PeerRefused(reader.peer, "not HTTP: a broken length")
    size = int(length)
    if size > MAX_BODY_BYTES:
        raise PeerRefused(reader.peer, f"a page of {size} bytes, above {MAX_BODY_BYTES}")
    while len(reader.buffer) < size:
        reader.need()
    body = bytes(reader.buffer[:size])
    del reader.buffer[:size]
    return body


def _read_until_close(reader: Reader) -> bytes:
    while reader.try_fill():
        if len(reader.buffer) > MAX_BODY_BYTES:
            raise PeerRefused(reader.peer, f"a page above {MAX_BODY_BYTES} bytes")
    body = bytes(reader.buffer)
    reader.buffer.clear()
    return body


def _read_chunks(reader: Reader) -> bytes:
    body = bytearray()
    at = 0
    for _ in range(MAX_CHUNKS):
        line, at = _read_line(reader, at)
        head = _CHUNK.fullmatch(line)
        if head is None:
            raise PeerRefused(reader.peer, "not HTTP: a broken chunk")
        size = int(head[1], 16)
        if len(body) + size > MAX_BODY_BYTES:
            raise PeerRefused(reader.peer, f"a page above {MAX_BODY_BYTES} bytes")
        if size == 0:
            line, at = _read_line(reader, at)
            if line:
                raise PeerRefused(reader.peer, "trailers, which were not asked for")
            del reader.buffer[:at]
            return bytes(body)
        while len(reader.buffer) < at + size + 2:
            reader.need()
        body += memoryview(reader.buffer)[at : at + size]
        if reader.buffer[at + size : at + size + 2] != b"\r\n":
            raise PeerRefused(reader.peer, "not HTTP: a broken chunk")
        at += size + 2
        if at >= _RECEIVE_BYTES:
            del reader.buffer[:at]
            at = 0
    raise PeerRefused(reader.peer, f"more than {MAX_CHUNKS} chunks")


def _read_line(reader: Reader, at: int) -> tuple[bytes, int]:
    """The line that begins at `at`, and where the next one does."""
    while (end := reader.buffer.find(b"\r\n", at, at + MAX_CHUNK_LINE_BYTES)) < 0:
        if len(reader.buffer) > at + MAX_CHUNK_LINE_BYTES:
            raise PeerRefused(reader.peer, "not HTTP: a chunk's line is too long")
        reader.need()
    return bytes(reader.buffer[at:end]), end + 2
