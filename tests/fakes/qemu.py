"""A QEMU and its guest in this process: QMP on a unix socket, one client at a time, and the daemon's HTTP.

It answers as QEMU 7.2 does (`tests/contract/test_qmp_contract.py` holds both to it), and can be made to
misbehave. Changes take effect at once, or are held back.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.fakes.qemu_machine import FakeMachine, Refused

GREETING = {
    "QMP": {
        "version": {"qemu": {"micro": 22, "minor": 2, "major": 7}, "package": ""},
        "capabilities": ["oob"],
    }
}


class FakeQemu:
    """A machine with its two doors open; a context manager.

    Attributes:
        behaviour: how the QMP socket treats its clients: `good`, `silent`, `garbage`, `endless` (a line
            without end), `breaks` (closes after a command, before its answer), `chatty` (events first).
    """

    def __init__(
        self, directory: Path, name: str = "a", machine: FakeMachine | None = None, *, port: int = 0
    ) -> None:
        self.machine = machine or FakeMachine()
        self.path = directory / f"{name}.qmp"
        self.token_file = directory / f"{name}.token"
        self.token_file.write_text(self.machine.token + "\n")
        self.behaviour = "good"
        self._stopping = threading.Event()
        self._connection: socket.socket | None = None
        self._http = ThreadingHTTPServer(("127.0.0.1", port), _guest_of(self.machine))
        self._http.daemon_threads = True
        self.guest_port: int = self._http.server_address[1]
        self._threads = [threading.Thread(target=self._http.serve_forever, args=(0.05,), name="fake-guest")]
        self._listener: socket.socket | None = None

    def __enter__(self) -> FakeQemu:
        self._threads[0].start()
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self.machine.put_delay.set()
        self._http.shutdown()
        self._http.server_close()
        for thread in self._threads:
            thread.join(10)

    def start(self) -> None:
        """Listen on the socket; also again after `kill`, as a QEMU that was started anew: with no note."""
        self.machine.objects.clear()
        self._stopping.clear()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.path))
        self._listener.listen(1)
        thread = threading.Thread(target=self._serve, args=(self._listener,), name="fake-qmp")
        self._threads.append(thread)
        thread.start()

    def kill(self) -> None:
        """End the QEMU, its socket's file left behind as a crash does."""
        self._stopping.set()
        if self._listener is not None:
            with contextlib.suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            self.path.unlink(missing_ok=True)
        if self._connection is not None:
            with contextlib.suppress(OSError):
                self._connection.shutdown(socket.SHUT_RDWR)

    def entry(self, name: str = "a", **fields: object) -> dict[str, object]:
        """The VM as an entry of the inventory file."""
        plain: dict[str, object] = {
            "name": name,
            "node": "n",
            "min": {"cpu": "250m", "memory": "1Gi"},
            "max": {"cpu": 4, "memory": "8Gi"},
            "slot": "1Gi",
            "qmp": str(self.path),
            "guest": f"127.0.0.1:{self.guest_port}",
            "tokenFile": str(self.token_file),
        }
        return {**plain, **fields}

    def _serve(self, listener: socket.socket) -> None:
        while not self._stopping.is_set():
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            self._connection = connection
            with connection, contextlib.suppress(OSError, ValueError):
                connection.settimeout(30)
                self._converse(connection)

    def _converse(self, connection: socket.socket) -> None:
        behaviour = self.behaviour
        if behaviour == "silent":
            connection.recv(1)
            return
        if behaviour == "garbage":
            connection.sendall(b"\x00\xff nonsense\r\n")
            connection.recv(1)
            return
        if behaviour == "endless":
            while not self._stopping.is_set():
                connection.sendall(b"x" * 65_536)
        connection.sendall(json.dumps(GREETING).encode() + b"\r\n")
        is_ready = False
        for line in connection.makefile("rb"):
            command = json.loads(line)
            tag = {"id": command["id"]} if "id" in command else {}
            if behaviour == "breaks" and is_ready:
                return
            if behaviour == "chatty" and is_ready:
                event = {
                    "event": "RTC_CHANGE",
                    "data": {"offset": 0},
                    "timestamp": {"seconds": 1, "microseconds": 2},
                }
                connection.sendall((json.dumps(event) + "\r\n").encode() * 3)
            answer = self._answer(command, is_ready=is_ready)
            is_ready = True
            connection.sendall(json.dumps({**answer, **tag}).encode() + b"\r\n")

    def _answer(self, command: dict[str, Any], *, is_ready: bool) -> dict[str, Any]:
        name = command["execute"]
        if name == "qmp_capabilities":
            return {"return": {}}
        if not is_ready:
            return {"error": {"class": "CommandNotFound", "desc": "Expecting capabilities negotiation"}}
        try:
            return {"return": self.machine.execute(name, command.get("arguments", {}))}
        except Refused as err:
            return {"error": {"class": err.kind, "desc": str(err)}}


def _guest_of(machine: FakeMachine) -> type[BaseHTTPRequestHandler]:
    """The handler of the guest daemon's port."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if machine.is_silent:
                self.connection.settimeout(20)
                self.connection.recv(1)
                return
            if self.path == "/metrics":
                total = machine.total - machine.kernel
                text = (
                    f"# x\nnode_memory_MemTotal_bytes {total}\n"
                    f"node_memory_MemAvailable_bytes {max(total - machine.used, 0)}\nnode_load1 0.5\n"
                    f"node_vmstat_oom_kill {machine.oom_kills}\n"
                )
                if machine.oom_age_s is not None:
                    text += f"vmscaler_guest_oom_kill_age_seconds {machine.oom_age_s}\n"
                self._reply(200, text.encode())
            elif self.path == "/load":
                self._reply_load()
            else:
                self._reply_cpus()

        def do_DELETE(self) -> None:
            if machine.load is not None:
                machine.load, machine.load_ended = None, "ended by signal 9"
            self._reply_load()

        def do_PUT(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.path == "/load":
                machine.load = json.loads(body)
                self._reply_load()
                return
            machine.put_delay.wait(20)
            try:
                machine.set_online(json.loads(body)["online"])
            except ValueError as err:
                self._reply(400, str(err).encode())
                return
            self._reply_cpus()

        def log_message(self, format: str, *args: object) -> None:
            return

        def _reply_load(self) -> None:
            load = machine.load or {}
            facts = {
                "is_running": bool(load),
                "ended": machine.load_ended,
                "seconds_left": load.get("seconds", 0),
            }
            self._reply(200, json.dumps(facts).encode())

        def _reply_cpus(self) -> None:
            if self.headers.get("Authorization") != f"Bearer {machine.token}":
                self._reply(401, b"a bearer token is needed\n")
                return
            self._reply(200, json.dumps({"online": machine.online, "present": machine.threads}).encode())

        def _reply(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return Handler
