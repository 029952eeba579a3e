"""VMs on this machine: made, started, stopped, deleted; each with a directory of its own.

A VM's QEMU belongs to nobody: it goes on when vmscaler ends, and is found again by its directory. That it
lives is known by a lock that it holds, not by a process id, which may be another's by then.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from app.adapters.qemu_accel import choose_accelerator
from app.adapters.qemu_command import QEMU, Launch, qemu_command
from app.adapters.qemu_directory import (
    CONSOLE,
    CONSOLE_LOG,
    LOG,
    PID,
    PORT,
    QMP,
    STARTED,
    TOKEN,
    LocalVm,
    VmDirectory,
    check_local_vm,
    vm_directories,
)
from app.adapters.qemu_guest import GuestDaemon
from app.adapters.qmp import QmpAddress, qmp_session
from app.errors import ConfigurationError, PeerError, UsageError
from app.ports.vm import Address

QUIT_LIMIT_S = 5.0
"""For QEMU to end after `quit`, then once more after SIGTERM; then it is killed."""
UP_LIMIT_S = 90.0
"""From its start to the first answer of the guest's daemon; 6 s alone, more beside others."""
_QMP_LIMIT_S = 15.0
_LOCK_LIMIT_S = 2.0
_MAX_LOG_BYTES = 4 * 1024 * 1024
_POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class Standing:
    """How a VM stands: `running`, `stopped`, or `dead` (it should run and does not)."""

    directory: VmDirectory
    state: str
    pid: int | None


class LocalVms:
    """The VMs below one state directory.

    Args:
        state: the directory; made when the first VM is.
        image_files: kernel, initramfs and root of an image's directory; raises ConfigurationError.
    """

    def __init__(self, state: Path, image_files: Callable[[Path], tuple[Path, Path, Path]]) -> None:
        self._state = state
        self._image_files = image_files

    def find(self, name: str) -> VmDirectory:
        """A VM by its name, with or without `local/` before it. Raises UsageError if there is none."""
        for directory in self.all():
            if directory.name == name.removeprefix("local/"):
                return directory
        raise UsageError(f"no VM of that name on this machine: {name!r}")

    def all(self) -> list[VmDirectory]:
        """All VMs, by name."""
        return vm_directories(self._state)

    def standing(self, directory: VmDirectory) -> Standing:
        """How a VM stands now."""
        if directory.is_running():
            return Standing(directory, "running", directory.pid())
        return Standing(directory, "dead" if directory.is_wanted() else "stopped", None)

    def create(self, vm: LocalVm) -> VmDirectory:
        """Make a VM's directory; it is complete or not there.

        Raises:
            UsageError: there is one of that name, or it can't be started like this.
        """
        check_local_vm(vm)
        place = self._state / "vms"
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        place.chmod(0o700)
        fresh = VmDirectory(place / f".new-{secrets.token_hex(8)}")
        fresh.path.mkdir(mode=0o700)
        try:
            _write_private(fresh.file(TOKEN), secrets.token_urlsafe(32))
            fresh.write(vm)
            fresh.path.rename(place / vm.name)
        except OSError as err:
            shutil.rmtree(fresh.path, ignore_errors=True)
            if (place / vm.name).exists():
                raise UsageError(f"a VM called {vm.name} is there already") from err
            raise ConfigurationError([f"{place / vm.name}: {err.strerror}"], source="vm create") from err
        return VmDirectory(place / vm.name)

    def start(self, directory: VmDirectory, *, accelerator: str = "auto") -> bool:
        """Start its QEMU and wait for its control socket; False: it runs already.

        Raises:
            ConfigurationError: QEMU or the image is missing, or QEMU ended at once; says what to do.
        """
        vm = directory.read()
        program = shutil.which(QEMU)
        if program is None:
            raise ConfigurationError(
                [f"{QEMU} is not installed; as root: apt-get install qemu-system-x86"], source="vm start"
            )
        kernel, initramfs, root = self._image_files(Path(vm.image))
        lock = _take_lock(directory)
        if lock is None:
            _write_private(directory.file(STARTED), "")
            return False
        try:
            launch = Launch(
                choose_accelerator(accelerator, program, kernel),
                _free_port(vm, directory),
                kernel,
                initramfs,
                root,
            )
            for name in (QMP, CONSOLE, PID):
                directory.file(name).unlink(missing_ok=True)
            _write_private(directory.file(PORT), str(launch.port))
            process = _spawn(qemu_command(program, vm, launch), directory, lock)
        finally:
            os.close(lock)
        _wait_for_qmp(process, directory)
        _write_private(directory.file(STARTED), "")
        return True

    def guest(self, directory: VmDirectory) -> GuestDaemon:
        """The daemon of a VM that was started."""
        return GuestDaemon(Address("127.0.0.1", directory.host_port() or 0), directory.file(TOKEN))

    def is_up(self, directory: VmDirectory) -> bool:
        """Whether its guest's daemon answers.

        Raises:
            ConfigurationError: it never will: QEMU has ended.
        """
        try:
            self.guest(directory).cpus(timeout_s=2.0)
        except PeerError as err:
            if not directory.is_running():
                problem = f"QEMU ended: {_last_words(directory)}"
                raise ConfigurationError([problem], source=directory.name) from err
            return False
        return True

    def wait_up(self, directory: VmDirectory, *, limit_s: float = UP_LIMIT_S) -> float:
        """Wait until the guest's daemon answers; seconds that it took.

        Raises:
            ConfigurationError: it did not in time, or QEMU ended.
        """
        begun = time.monotonic()
        while not self.is_up(directory):
            if time.monotonic() - begun > limit_s:
                problem = f"no answer from its guest in {limit_s:g} s; see {directory.file(CONSOLE_LOG)}"
                raise ConfigurationError([problem], source=directory.name)
            time.sleep(4 * _POLL_S)
        return time.monotonic() - begun

    def stop(self, directory: VmDirectory) -> bool:
        """End its QEMU, by `quit`, SIGTERM, SIGKILL; False if it did not run. Its root is read-only."""
        directory.file(STARTED).unlink(missing_ok=True)
        was_running = directory.is_running()
        if was_running:
            with (
                contextlib.suppress(PeerError),
                qmp_session(_qmp(directory), timeout_s=QUIT_LIMIT_S) as session,
            ):
                session.execute("quit")
            for number in (signal.SIGTERM, signal.SIGKILL):
                if _wait_until(lambda: not directory.is_running(), QUIT_LIMIT_S):
                    break
                pid = directory.pid()
                if pid is not None:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, number)
            if not _wait_until(lambda: not directory.is_running(), QUIT_LIMIT_S):
                raise ConfigurationError(
                    [f"its QEMU can't be ended (pid {directory.pid()})"], source=directory.name
                )
        for name in (QMP, CONSOLE, PID):
            directory.file(name).unlink(missing_ok=True)
        return was_running

    def delete(self, directory: VmDirectory) -> None:
        """Stop it, and remove its directory with all that is in it."""
        self.stop(directory)
        gone = directory.path.with_name(f".gone-{secrets.token_hex(8)}")
        directory.path.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)


def new_uid() -> str:
    """For a VM that is made now."""
    return str(uuid.uuid4())


def _qmp(directory: VmDirectory) -> QmpAddress:
    return QmpAddress(path=directory.file(QMP))


def _take_lock(directory: VmDirectory) -> int | None:
    """The VM's lock; who only asks whether it runs holds it for a moment, which is waited for."""
    deadline = time.monotonic() + _LOCK_LIMIT_S
    while (lock := directory.try_lock()) is None and time.monotonic() < deadline:
        if directory.pid() is not None:
            return None
        time.sleep(_POLL_S)
    return lock


def _free_port(vm: LocalVm, directory: VmDirectory) -> int:
    """The wanted port, or the one of last time, or any; the first that is free on loopback."""
    for port in [vm.port] if vm.port else [directory.host_port() or 0, 0]:
        with contextlib.suppress(OSError), socket.socket() as probe:
            # As QEMU does: connections of the VM's last life keep no port from it.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            return int(probe.getsockname()[1])
    wanted = f"port {vm.port}" if vm.port else "every port"
    raise ConfigurationError([f"{wanted} on 127.0.0.1 is taken"], source=vm.name)


def _spawn(command: list[str], directory: VmDirectory, lock: int) -> subprocess.Popen[bytes]:
    """Start QEMU in a session of its own; it holds the lock to its end."""
    _cut(directory.file("console.log"))
    log = os.open(directory.file(LOG), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        return subprocess.Popen(
            command,
            cwd=directory.path,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            pass_fds=(lock,),
            start_new_session=True,
            umask=0o077,
        )
    finally:
        os.close(log)


def _wait_for_qmp(process: subprocess.Popen[bytes], directory: VmDirectory) -> None:
    deadline = time.monotonic() + _QMP_LIMIT_S
    while True:
        if process.poll() is not None:
            words = _last_words(directory)
            raise ConfigurationError([f"QEMU ended at its start: {words}"], source=directory.name)
        try:
            with qmp_session(_qmp(directory), timeout_s=1.0):
                return
        except PeerError as err:
            if time.monotonic() > deadline:
                process.kill()
                process.wait()
                problem = f"QEMU's control socket does not answer: {err.problem}"
                raise ConfigurationError([problem], source=directory.name) from err
            time.sleep(_POLL_S)


def _last_words(directory: VmDirectory) -> str:
    try:
        with directory.file(LOG).open("rb") as file:
            lines = file.read(_MAX_LOG_BYTES).decode("utf-8", "replace").strip().splitlines()
    except OSError:
        lines = []
    return "".join(each if each.isprintable() else "?" for each in (lines or ["it left no word"])[-1])[:300]


def _cut(log: Path) -> None:
    """A console's log that has grown large begins anew; the one before is kept."""
    with contextlib.suppress(FileNotFoundError):
        if log.stat().st_size > _MAX_LOG_BYTES:
            log.replace(log.with_suffix(".log.1"))


def _write_private(path: Path, text: str) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w") as file:
        file.write(text)


def _wait_until(is_true: Callable[[], bool], limit_s: float) -> bool:
    deadline = time.monotonic() + limit_s
    while not is_true():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True
