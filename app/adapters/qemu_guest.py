"""What the guest itself says and does: CPUs online, its memory; over the daemon's HTTP port.

One short connection a question, all of it within a deadline. The bearer token is read from its file at each
question, so that a new one counts at once.
"""

from __future__ import annotations

import json
import socket
import time
from dataclasses import dataclass
from pathlib import Path

from app.adapters.http_body import Reader, read_response
from app.core.resources import MilliCpu
from app.errors import InvalidInput, PeerRefused, PeerTimedOut, PeerUnreachable
from app.ports.vm import Address
from app.protocols.bounded_json import read_json_object
from app.protocols.printable import printable

MAX_TOKEN_BYTES = 4096
MAX_CPUS = 8192
DEFAULT_LOAD_RATE = 12 * 1024 * 1024
"""Bytes a second by which a load's memory grows: slow enough for more to be plugged before it runs out."""
_MAX_ANSWER_BYTES = 4096


@dataclass(frozen=True, slots=True)
class GuestCpus:
    """CPUs of the guest: running, and there at all."""

    online: int
    present: int

    @property
    def milli(self) -> MilliCpu:
        """The running ones in milli-vCPU."""
        return MilliCpu(self.online * 1000)


@dataclass(frozen=True, slots=True)
class GuestMemory:
    """The guest kernel's numbers.

    Attributes:
        total, available: bytes.
        oom_kills: processes killed for want of memory since it started; None: not told.
        oom_age_s: seconds since the last of them, from our own daemon; None: none, or not told.
    """

    total: int
    available: int
    oom_kills: int | None = None
    oom_age_s: float | None = None


@dataclass(frozen=True, slots=True)
class GuestLoad:
    """A load that an operator has put on the guest.

    Attributes:
        ended: how the last one ended, such as `over` or `ended by signal 9` (memory ran out); None: none has.
        seconds_left: until it ends by itself.
    """

    is_running: bool
    ended: str | None
    seconds_left: float


class GuestDaemon:
    """The daemon of one VM.

    Args:
        address: its HTTP port.
        token_file: with the token that `/cpus` asks for; None: it asks for none.
    """

    def __init__(self, address: Address, token_file: Path | None) -> None:
        self._address = address
        self._token_file = token_file
        self.peer = f"guest at {address.host}:{address.port}"

    def cpus(self, *, timeout_s: float) -> GuestCpus:
        """How many CPUs the guest runs.

        Raises:
            PeerError: unknown; nothing may be concluded.
        """
        return self._counted(self._ask("GET", "/cpus", b"", timeout_s))

    def set_cpus(self, online: int, *, timeout_s: float) -> GuestCpus:
        """Have that many run; what was reached, which may be fewer or more.

        Raises:
            PeerRefused: the guest refused; nothing changed.
            PeerTimedOut: it may have taken effect.
            PeerUnreachable: nothing changed.
        """
        body = json.dumps({"online": online}).encode()
        return self._counted(self._ask("PUT", "/cpus", body, timeout_s))

    def memory(self, *, timeout_s: float) -> GuestMemory:
        """MemTotal and MemAvailable, off its metrics page.

        Raises:
            PeerError: unknown.
        """
        page = self._ask("GET", "/metrics", b"", timeout_s)
        kills = _number(page, b"node_vmstat_oom_kill")
        return GuestMemory(
            self._size(page, b"MemTotal"),
            self._size(page, b"MemAvailable"),
            None if kills is None else int(kills),
            _number(page, b"vmscaler_guest_oom_kill_age_seconds"),
        )

    def begin_load(
        self, *, milli_cpu: int, memory: int, rate: int, seconds: int, timeout_s: float
    ) -> GuestLoad:
        """Put a load on the guest, in the place of the one before.

        Args:
            milli_cpu: CPUs to keep busy.
            memory: bytes to take, growing by `rate` bytes a second.
            seconds: until it ends by itself.

        Raises:
            PeerError: refused, or unknown; 404: its daemon serves no load.
        """
        wanted = {"milli_cpu": milli_cpu, "memory": memory, "rate": rate, "seconds": seconds}
        return self._loaded(self._ask("PUT", "/load", json.dumps(wanted).encode(), timeout_s))

    def end_load(self, *, timeout_s: float) -> GuestLoad:
        """End the load, if there is one. Raises PeerError."""
        return self._loaded(self._ask("DELETE", "/load", b"", timeout_s))

    def load(self, *, timeout_s: float) -> GuestLoad:
        """The load of now, or how the last one ended. Raises PeerError."""
        return self._loaded(self._ask("GET", "/load", b"", timeout_s))

    def _ask(self, method: str, path: str, body: bytes, timeout_s: float) -> bytes:
        """The body of the 200 to one request."""
        deadline = time.monotonic() + timeout_s
        request = self._request(method, path, body)
        try:
            connection = socket.create_connection(self._address, timeout=max(timeout_s, 0.001))
        except (OSError, UnicodeError, ValueError) as err:
            raise PeerUnreachable(self.peer, "no connection: no daemon, or no network in the guest") from err
        with connection:
            try:
                connection.settimeout(max(deadline - time.monotonic(), 0.001))
                connection.sendall(request)
            except OSError as err:
                raise PeerTimedOut(self.peer, "it does not read what it is sent") from err
            reader = Reader(connection, self.peer, deadline)
            # QEMU's own network takes a connection before the guest has; then it ends without a byte.
            try:
                if not reader.fill():
                    raise PeerUnreachable(self.peer, "no answer: the guest is not up, or its daemon is not")
            except OSError as err:
                problem = "no answer in time" if isinstance(err, TimeoutError) else "the connection broke"
                raise PeerTimedOut(self.peer, problem) from err
            return read_response(reader)[0]

    def _request(self, method: str, path: str, body: bytes) -> bytes:
        lines = [f"{method} {path} HTTP/1.1", f"Host: {self._address.host}:{self._address.port}"]
        lines += ["User-Agent: vmscaler", "Connection: close"]
        if (token := self._token()) is not None:
            lines.append(f"Authorization: Bearer {token}")
        if method == "PUT":
            lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
        return "\r\n".join([*lines, "", ""]).encode("latin-1", "replace") + body

    def _token(self) -> str | None:
        if self._token_file is None:
            return None
        try:
            with self._token_file.open("rb") as file:
                token = file.read(MAX_TOKEN_BYTES + 1).decode("ascii").strip()
        except (OSError, ValueError) as err:
            raise PeerUnreachable(self.peer, f"its token can't be read: {self._token_file}") from err
        if not token or len(token) > MAX_TOKEN_BYTES or not token.isprintable():
            raise PeerUnreachable(self.peer, f"no token in {self._token_file}: one line was expected")
        return token

    def _counted(self, body: bytes) -> GuestCpus:
        try:
            found = read_json_object(body, max_bytes=_MAX_ANSWER_BYTES, where=self.peer)
        except InvalidInput as err:
            raise PeerRefused(self.peer, err.problem) from err
        online, present = found.get("online"), found.get("present")
        if type(online) is not int or type(present) is not int or not 1 <= online <= present <= MAX_CPUS:
            raise PeerRefused(self.peer, "an answer without its CPUs")
        return GuestCpus(online, present)

    def _loaded(self, body: bytes) -> GuestLoad:
        try:
            found = read_json_object(body, max_bytes=_MAX_ANSWER_BYTES, where=self.peer)
        except InvalidInput as err:
            raise PeerRefused(self.peer, err.problem) from err
        ended, left = found.get("ended"), found.get("seconds_left")
        return GuestLoad(
            found.get("is_running") is True,
            printable(ended, 60) if isinstance(ended, str) else None,
            float(left) if isinstance(left, int | float) else 0.0,
        )

    def _size(self, page: bytes, name: bytes) -> int:
        """A number of bytes off the page, as node_exporter writes it."""
        value = _number(page, b"node_memory_" + name + b"_bytes")
        if value is None:
            raise PeerRefused(self.peer, f"no {name.decode()} on its metrics page")
        return int(value)


def _number(page: bytes, name: bytes) -> float | None:
    """The value of a series without labels; None where it is not there, or none that can be."""
    wanted = b"\n" + name + b" "
    at = page.find(wanted)
    try:
        value = float(page[at + len(wanted) :].split(b"\n", 1)[0]) if at >= 0 else -1.0
    except ValueError:
        return None
    return value if 0 <= value < 1 << 60 else None
