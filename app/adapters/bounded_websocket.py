"""A websocket client connection that a hostile server can't make wait, grow or burn CPU without end.

websocket-client bounds neither messages nor the handshake, and its time limit counts from one packet to the
next. Here a frame's length is checked before its payload is read, fragments are summed up, every wait has an
absolute deadline, and a flood is slowed down to what TCP can push back. Compression is never offered: the
real agent's peers refuse it. Redirects are errors.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Mapping
from http.cookies import CookieError
from typing import Protocol

import websocket
from websocket import _abnf as frames
from websocket._handshake import CookieJar

from app.adapters.client_tls import ClientTls, TlsSocket, connect_tls
from app.errors import PeerRefused, PeerTimedOut, PeerUnreachable
from app.ports.vm import Address
from app.protocols.printable import printable

MAX_HANDSHAKE_BYTES = 8192
"""Of the server's HTTP answer, read byte by byte."""
SEND_TIMEOUT_S = 5.0
"""A peer that takes nothing for that long is gone."""
MAX_LINGER_BYTES = 1 << 20
"""A peer that goes on sending behind our close frame is left with a reset."""
LINGER_S = 1.0
"""How long we wait for the peer to see a close frame before the socket goes."""
MAX_READS_PER_SECOND = 8000
"""Three a message: a guest may well send a thousand a second; beyond it we let it wait."""
MAX_BYTES_PER_SECOND = 256 * 1024
"""Four of the longest messages; one can take 8 ms of CPU to be read as JSON."""
READS_PER_TURN = 64
BYTES_PER_TURN = 32 * 1024
"""After so much others get their turn, for a flood never waits by itself."""
TURN_PAUSE_S = 0.001
"""How long that is. Not 0: gevent would go on with us fifty times before it looks at sockets and timers."""
LONGEST_WAIT_S = 3600.0
"""A deadline at infinity is no number for a socket."""
_RECEIVE_BYTES = 16_384


class ConnectionEnded(Exception):
    """Nothing more will be received.

    Attributes:
        close_code: what to tell the peer; None: it has closed already, there is nobody to tell.
    """

    def __init__(self, problem: str, close_code: int | None = None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.close_code = close_code


class _TooLong(websocket.WebSocketException):  # type: ignore[misc, unused-ignore]
    """A message above the limit."""


class _Wire:
    """The socket as websocket-client uses it: buffered reads with an absolute deadline.

    Reading and sending may be done by two threads; they share one socket timeout, so each loops until its
    own deadline.
    """

    def __init__(self, connection: socket.socket | TlsSocket, deadline: float) -> None:
        self._socket = connection
        self._buffer = b""
        self._turn_reads = self._turn_bytes = 0
        self._second = 0.0
        self._reads = self._bytes = 0
        self.deadline = deadline
        self.send_timeout_s = SEND_TIMEOUT_S
        self.allowance: int | None = MAX_HANDSHAKE_BYTES

    def recv(self, count: int) -> bytes:
        """Up to `count` bytes; empty at the end of the stream; TimeoutError at the deadline."""
        self._take_turns()
        if not self._buffer:
            remaining = self.deadline - time.monotonic()
            if remaining <= 0:
                raise TimeoutError
            self._socket.settimeout(min(max(remaining, 0.001), LONGEST_WAIT_S))
            self._buffer = self._socket.recv(_RECEIVE_BYTES)
        data, self._buffer = self._buffer[:count], self._buffer[count:]
        self._turn_reads += 1
        self._turn_bytes += len(data)
        if self.allowance is not None:
            self.allowance -= len(data)
            if self.allowance < 0:
                raise _TooLong("an endless handshake")
        return data

    def _take_turns(self) -> None:
        """Before each read: what came since the last pause decides whether there is one now."""
        if self._turn_reads < READS_PER_TURN and self._turn_bytes < BYTES_PER_TURN:
            return
        self._reads += self._turn_reads
        self._bytes += self._turn_bytes
        self._turn_reads = self._turn_bytes = 0
        now = time.monotonic()
        if now - self._second >= 1:
            self._second, self._reads, self._bytes = now, 0, 0
        is_flood = self._reads > MAX_READS_PER_SECOND or self._bytes > MAX_BYTES_PER_SECOND
        time.sleep(1 - (now - self._second) if is_flood else TURN_PAUSE_S)

    def send(self, data: bytes) -> int:
        """Send some of it; TimeoutError when the peer takes nothing for `send_timeout_s`."""
        deadline = time.monotonic() + self.send_timeout_s
        while True:
            try:
                return self._socket.send(data)
            except TimeoutError:
                # The reader's deadline may be nearer than ours.
                if time.monotonic() >= deadline:
                    raise

    def gettimeout(self) -> float | None:
        """What the library asks to tell blocking from not."""
        return self._socket.gettimeout()

    def settimeout(self, timeout: float | None) -> None:
        """Ignored: deadlines are ours."""

    def shutdown(self, how: int) -> None:
        """End one direction or both; fine on a connection that is gone."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(how)

    def drain(self) -> None:
        """Wait for the peer's end of the stream, within bounds: unread bytes would reset what was sent."""
        deadline, allowance = time.monotonic() + LINGER_S, MAX_LINGER_BYTES
        with contextlib.suppress(OSError):
            while allowance > 0 and (remaining := deadline - time.monotonic()) > 0:
                self._socket.settimeout(remaining)
                data = self._socket.recv(_RECEIVE_BYTES)
                if not data:
                    return
                allowance -= len(data)

    @property
    def _closed(self) -> bool:
        return self._socket.fileno() < 0

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


class _Frames(frames.frame_buffer):  # type: ignore[misc, unused-ignore]
    """Refuses a frame by its header."""

    max_bytes = 0

    def recv_length(self) -> None:
        super().recv_length()
        if self.length is not None and self.length > self.max_bytes:
            raise _TooLong(f"a frame of {self.length} bytes")


class _Fragments(frames.continuous_frame):  # type: ignore[misc, unused-ignore]
    """Refuses a message by the sum of its fragments."""

    max_bytes = 0

    def add(self, frame: frames.ABNF) -> None:
        super().add(frame)
        if self.cont_data is not None and len(self.cont_data[1]) > self.max_bytes:
            raise _TooLong("a message of many fragments")


class FrameWatcher(Protocol):
    """Is shown each message, as whoever looks over one's shoulder; called by the thread that has it."""

    def sent(self, data: bytes) -> None:
        """Before it is sent."""
        ...

    def received(self, data: bytes) -> None:
        """Before anyone acts on it."""
        ...


class BoundedWebSocket:
    """An open websocket. One thread receives; any may send and close.

    Args:
        path: of the URL, such as `/monitor`.
        timeout_s: for TCP and the HTTP upgrade together.
        max_bytes: longest message that is received.
        bearer: a token that lets us in, for servers that ask for one.
        headers: of the upgrade, beside.
        tls: whom we believe; None: no TLS.

    Raises:
        PeerUnreachable: no TCP connection, or no TLS.
        PeerTimedOut: no upgrade in time.
        PeerRefused: something else than an upgrade.
    """

    def __init__(
        self,
        address: Address,
        path: str,
        *,
        timeout_s: float,
        max_bytes: int,
        bearer: str | None = None,
        watcher: FrameWatcher | None = None,
        headers: Mapping[str, str] | None = None,
        tls: ClientTls | None = None,
    ) -> None:
        self._headers = dict(headers or {})
        if bearer is not None:
            self._headers["Authorization"] = f"Bearer {bearer}"
        self._watcher = watcher
        self.peer = f"{address.host}:{address.port}"
        deadline = time.monotonic() + timeout_s
        if timeout_s <= 0:
            raise PeerUnreachable(self.peer, "no time left to connect")
        self._wire = _Wire(_connect(address, deadline, tls, self.peer), deadline)
        self._socket = websocket.WebSocket(skip_utf8_validation=True)
        self._socket.frame_buffer = _Frames(self._socket._recv, True)
        self._socket.cont_frame = _Fragments(False, True)
        self._socket.frame_buffer.max_bytes = self._socket.cont_frame.max_bytes = max_bytes
        self._close_lock = threading.Lock()  # Guards `_is_closing`.
        self._is_closing = False
        try:
            if time.monotonic() >= deadline:
                # This process was stopped meanwhile: what limited the call may be over, such as a lease.
                raise PeerTimedOut(self.peer, "no time left for the upgrade")
            self._upgrade(address, path)
        except BaseException:
            self._wire.close()
            raise

    def _upgrade(self, address: Address, path: str) -> None:
        host = f"[{address.host}]" if ":" in address.host else address.host
        try:
            self._socket.connect(  # type: ignore[no-untyped-call, unused-ignore]
                f"ws://{host}:{address.port}{path}",
                socket=self._wire,
                redirect_limit=0,
                suppress_origin=True,
                header=[f"{name}: {value}" for name, value in self._headers.items()],
            )
        except websocket.WebSocketTimeoutException as err:
            raise PeerTimedOut(self.peer, "no websocket upgrade in time") from err
        except websocket.WebSocketBadStatusException as err:
            # The library's own text shows all headers of the answer.
            text = printable((err.resp_body or b"").decode("utf-8", "replace").strip())
            problem = f"HTTP status {err.status_code} instead of a websocket: {text}"
            raise PeerRefused(self.peer, problem.rstrip(": "), code=err.status_code) from err
        except (websocket.WebSocketException, OSError, ValueError, CookieError) as err:
            raise PeerRefused(self.peer, f"no websocket upgrade: {err}"[:300]) from err
        finally:
            # The library keeps servers' cookies for the whole process; a guest must not leave any.
            CookieJar.jar.clear()
        self._wire.allowance = None
        # Its headers would take two KB for as long as the connection lives.
        self._socket.handshake_response = None

    def send(self, data: bytes, timeout_s: float = SEND_TIMEOUT_S) -> None:
        """Send one text message; the peer must take each part of it within `timeout_s`.

        Raises:
            ConnectionEnded: it can't be sent.
        """
        self._wire.send_timeout_s = timeout_s
        if self._watcher is not None:
            self._watcher.sent(data)
        try:
            self._socket.send(data, frames.ABNF.OPCODE_TEXT)
        except (websocket.WebSocketException, OSError) as err:
            raise ConnectionEnded(f"sending failed: {err}") from err

    def receive(self, deadline: float) -> bytes | None:
        """The next whole message; None at the deadline, also in the middle of one, which then goes on.

        Raises:
            ConnectionEnded: there is no next one.
        """
        self._wire.deadline = deadline
        try:
            opcode, frame = self._socket.recv_data_frame()
        except websocket.WebSocketTimeoutException:
            return None
        except _TooLong as err:
            raise ConnectionEnded(f"too long: {err}", 1009) from err
        except websocket.WebSocketConnectionClosedException as err:
            raise ConnectionEnded("the peer closed the connection") from err
        except websocket.WebSocketException as err:
            raise ConnectionEnded(f"not the websocket protocol: {err}"[:300], 1002) from err
        except OSError as err:
            raise ConnectionEnded(f"the connection broke: {err}") from err
        if opcode == frames.ABNF.OPCODE_CLOSE:
            code = int.from_bytes(frame.data[:2], "big") if len(frame.data) >= 2 else 1005
            raise ConnectionEnded(f"the peer closed with code {code}")
        data = bytes(frame.data)
        if self._watcher is not None:
            self._watcher.received(data)
        return data

    def shut(self, close_code: int | None) -> None:
        """Say goodbye and stop both directions; the receiving thread then sees the end."""
        if self._begin_closing():
            self._say_goodbye(close_code)
            self._wire.shutdown(socket.SHUT_RDWR)

    def finish(self, close_code: int | None) -> None:
        """End it from the receiving thread: goodbye, wait a moment until the peer has read it, close."""
        if self._begin_closing() and close_code is not None:
            self._say_goodbye(close_code)
            self._wire.shutdown(socket.SHUT_WR)
            self._wire.drain()
        self._wire.close()

    def _begin_closing(self) -> bool:
        with self._close_lock:
            was_closing, self._is_closing = self._is_closing, True
        return not was_closing

    def _say_goodbye(self, close_code: int | None) -> None:
        if close_code is not None:
            with contextlib.suppress(websocket.WebSocketException, OSError):
                self._socket.send_close(close_code)


def _connect(
    address: Address, deadline: float, tls: ClientTls | None, peer: str
) -> socket.socket | TlsSocket:
    """Raises PeerUnreachable."""
    timeout_s = deadline - time.monotonic()
    try:
        connection = socket.create_connection((address.host, address.port), timeout=timeout_s)
    except (OSError, UnicodeError) as err:
        raise PeerUnreachable(peer, f"no connection: {err}") from err
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if tls is None:
        return connection
    try:
        return connect_tls(connection, tls, address.host, timeout_s=deadline - time.monotonic())
    except OSError as err:
        connection.close()
        raise PeerUnreachable(peer, f"no TLS: {err}") from err
