"""TLS from our side: whom we believe, and a socket whose reader and writer may be two threads.

OpenSSL's objects may not be used by two threads at once, and Python's own TLS sockets let them (3.11). Here
the bytes go through memory under a lock, and the plain socket below does the waiting, in threads as in
greenlets.

For reading, a timeout counts from when it is set, over all the waits that follow: one who sends its records
byte by byte gains nothing. For sending it counts from each call: it is the reader that has set it.
"""

from __future__ import annotations

import contextlib
import io
import socket
import ssl
import threading
import time
from dataclasses import dataclass
from typing import Any

from app.errors import ConfigurationError

RECORD_BYTES = 16_384
"""Of the largest TLS record; as much is read at once."""


@dataclass(frozen=True, slots=True)
class ClientTls:
    """Whom we believe.

    Attributes:
        server_name: what certificates must be made out to; None: to the host name or address that is dialled.
    """

    context: ssl.SSLContext
    server_name: str | None = None


def client_tls(ca_file: str | None, server_name: str | None = None, *, where: str) -> ClientTls:
    """TLS 1.2 and later, with certificates that are always checked.

    Args:
        ca_file: PEM file with the authorities that we believe; None: those of the system.
        where: the setting or option that names the file, for the error.

    Raises:
        ConfigurationError: the file can't be read, or holds no certificate.
    """
    context = ssl.create_default_context() if ca_file is None else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if ca_file is not None:
        try:
            context.load_verify_locations(ca_file)
        except ssl.SSLError:
            raise ConfigurationError([f"{where}: {ca_file} holds no certificate in PEM"]) from None
        except (OSError, ValueError) as err:
            problem = getattr(err, "strerror", None) or "no file name"
            raise ConfigurationError([f"{where}: {ca_file} can't be read: {problem}"]) from None
    return ClientTls(context, server_name)


def tls_problem(err: ssl.SSLError) -> str:
    """What went wrong, for an operator: OpenSSL's own words name its source lines."""
    if isinstance(err, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {err.verify_message}"
    if err.reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE"):
        return "it does not speak TLS"
    return f"no TLS: {(err.reason or 'the connection ended').lower().replace('_', ' ')}"


def connect_tls(plain: socket.socket, tls: ClientTls, host: str, *, timeout_s: float) -> TlsSocket:
    """TLS over a connected socket, after its handshake.

    Raises:
        OSError: no TLS; the text is for an operator. The socket is still to be closed.
        TimeoutError: not in time.
    """
    secure = TlsSocket(plain, tls, host)
    secure.settimeout(max(timeout_s, 0.001))
    try:
        secure.shake_hands()
    except ssl.SSLError as err:
        raise ConnectionAbortedError(tls_problem(err)) from err
    return secure


class TlsSocket:
    """TLS over a connected socket, as a client; the parts of `socket.socket` that our clients use.

    One thread receives, one sends at a time. A send that timed out is repeated with the same data.
    """

    def __init__(self, plain: socket.socket, tls: ClientTls, host: str) -> None:
        self._plain = plain
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        # Guards `_engine` and its two buffers; no I/O under it.
        self._lock = threading.Lock()
        # Guards `_unsent`: records must leave in their order, so the sending itself is under it.
        self._sending = threading.Lock()
        self._engine = tls.context.wrap_bio(
            self._incoming, self._outgoing, server_hostname=tls.server_name or host
        )
        self._unsent = bytearray()
        self._accepted = 0
        self._timeout = plain.gettimeout()
        self._deadline = 0.0
        self.settimeout(self._timeout)

    def shake_hands(self) -> None:
        """Called once, before anything else.

        Raises:
            ssl.SSLError: see `tls_problem`.
            OSError: the connection broke, or took too long.
        """
        while True:
            try:
                with self._lock:
                    self._engine.do_handshake()
                self._flush()
                return
            except ssl.SSLWantReadError:
                self._flush()
                self._fill()
            except ssl.SSLError:
                with contextlib.suppress(OSError):
                    self._flush()
                raise

    def recv(self, count: int) -> bytes:
        """Up to `count` bytes; empty at an end that the peer has announced, an error at any other."""
        while True:
            try:
                with self._lock:
                    return self._engine.read(count)
            except ssl.SSLZeroReturnError:
                return b""
            except ssl.SSLWantReadError:
                if self._outgoing.pending:
                    self._flush()
                self._fill()

    def recv_into(self, buffer: Any, count: int = 0) -> int:
        """Like `recv`, into a buffer."""
        view = memoryview(buffer).cast("B")
        data = self.recv(count or len(view))
        view[: len(data)] = data
        return len(data)

    def send(self, data: bytes) -> int:
        """Send all of it; gives its length."""
        if not self._accepted and data:
            with self._lock:
                self._accepted = self._engine.write(data)
        self._flush()
        sent, self._accepted = self._accepted, 0
        return sent

    def sendall(self, data: bytes) -> None:
        """Send all of it."""
        rest = memoryview(data)
        while rest:
            rest = rest[self.send(bytes(rest)) :]

    def makefile(self, mode: str = "rb", buffering: int | None = None) -> io.BufferedReader:
        """A reader; the socket below stays open until it is closed, too, as a socket's own does."""
        raw = socket.SocketIO(self, "r")  # type: ignore[arg-type]  # it only calls what is here
        self._plain._io_refs += 1  # type: ignore[attr-defined]
        return io.BufferedReader(raw, buffering if buffering and buffering > 0 else io.DEFAULT_BUFFER_SIZE)

    def _decref_socketios(self) -> None:
        """What that reader calls when it is closed."""
        self._plain._decref_socketios()  # type: ignore[attr-defined]

    def gettimeout(self) -> float | None:
        """What was set."""
        return self._timeout

    def settimeout(self, timeout: float | None) -> None:
        """For all that is waited for from now on, in seconds; None for no limit, 0 for no wait."""
        self._timeout = timeout
        self._deadline = time.monotonic() + (timeout or 0.0)

    def setsockopt(self, *arguments: Any) -> None:
        """Of the socket below."""
        self._plain.setsockopt(*arguments)

    def fileno(self) -> int:
        """Of the socket below; -1 once it is closed."""
        return self._plain.fileno()

    def shutdown(self, how: int) -> None:
        """Announce the end of what we send, then end one direction or both."""
        if how != socket.SHUT_RD:
            with contextlib.suppress(OSError, ValueError), self._lock:
                self._engine.unwrap()
        with contextlib.suppress(OSError):
            self._flush()
        self._plain.shutdown(how)

    def close(self) -> None:
        """Close the socket below."""
        self._plain.close()

    def _flush(self) -> None:
        with self._sending:
            with self._lock:
                self._unsent += self._outgoing.read()
            deadline = time.monotonic() + (self._timeout or 0.0)
            while self._unsent:
                self._limit_wait(deadline)
                del self._unsent[: self._plain.send(self._unsent)]

    def _fill(self) -> None:
        self._limit_wait(self._deadline)
        data = self._plain.recv(RECORD_BYTES)
        with self._lock:
            if data:
                self._incoming.write(data)
            else:
                self._incoming.write_eof()

    def _limit_wait(self, deadline: float) -> None:
        """Give the socket below the rest of the time."""
        rest = self._timeout
        if rest:
            rest = deadline - time.monotonic()
            if rest <= 0:
                raise TimeoutError("timed out")
        self._plain.settimeout(rest)
