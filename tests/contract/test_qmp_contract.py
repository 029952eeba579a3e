"""One suite for a QMP server: the fake answers as a real QEMU does (opt-in, see `real_qemu`)."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.adapters.qemu_memory import MemoryDriver, VirtioMem
from app.adapters.qemu_note import Note, read_note, write_note
from app.adapters.qmp import QmpAddress, QmpRefused, QmpSession, qmp_session
from app.core.resources import resources
from app.errors import PeerUnreachable
from tests.fakes.qemu import FakeQemu
from tests.fakes.qemu_machine import MIB, FakeMachine
from tests.fleet_process import until

QEMU = "qemu-system-x86_64"
OPT_IN = "VMSCALER_TEST_VM"


def real_qemu(path: Path) -> subprocess.Popen[bytes]:
    """A real one without a kernel, which stands still at its first instruction."""
    memory = "memory-backend-ram,id=vmem0,size=7168M,reserve=off"
    device = "virtio-mem-pci,id=vm0,memdev=vmem0,node=0,requested-size=0"
    return subprocess.Popen(
        [
            *(QEMU, "-machine", "q35", "-accel", "tcg", "-smp", "4", "-m", "1024M,maxmem=8192M"),
            *("-nodefaults", "-no-user-config", "-display", "none"),
            *("-object", memory, "-device", device, "-qmp", f"unix:{path},server=on,wait=off"),
        ]
    )


@pytest.fixture(params=["fake", "qemu"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[QmpAddress]:
    if request.param == "fake":
        with FakeQemu(tmp_path, machine=FakeMachine()) as qemu:
            qemu.machine.is_applying = False
            yield QmpAddress(path=qemu.path)
        return
    if not os.environ.get(OPT_IN) or shutil.which(QEMU) is None:
        pytest.skip(f"a real QEMU, with {OPT_IN}=1")
    path = tmp_path / "qmp"
    process = real_qemu(path)
    try:
        until(path.exists, "QEMU listens")
        yield QmpAddress(path=path)
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def session(address: QmpAddress) -> Iterator[QmpSession]:
    with qmp_session(address, timeout_s=30) as opened:
        yield opened


def test_the_version_is_one_that_knows_virtio_mem(session: QmpSession) -> None:
    assert session.version >= (5, 1)


def test_a_running_vm_says_so(session: QmpSession) -> None:
    status = session.execute("query-status")
    assert isinstance(status, dict)
    assert (status["status"], status["running"]) == ("running", True)
    assert session.execute("query-migrate") == {}


def test_each_cpu_is_listed(session: QmpSession) -> None:
    cpus = session.execute("query-cpus-fast")
    assert isinstance(cpus, list)
    assert len(cpus) == 4


def test_virtio_mem_begins_with_nothing_and_remembers_what_is_asked(session: QmpSession) -> None:
    driver: MemoryDriver = VirtioMem("vm0")
    state = driver.read(session)
    assert (state.actual, state.requested) == (1024 * MIB, 1024 * MIB)
    assert (state.least, state.most, state.block) == (1024 * MIB, 8192 * MIB, 2 * MIB)
    driver.request(session, state, 3072 * MIB)
    later = driver.read(session)
    # Nobody in the guest answers: what is asked for is no size.
    assert (later.actual, later.requested) == (1024 * MIB, 3072 * MIB)


def test_more_memory_than_there_is_room_for_is_refused(session: QmpSession) -> None:
    driver = VirtioMem("vm0")
    state = driver.read(session)
    with pytest.raises(QmpRefused):
        driver.request(session, state, 9000 * MIB)
    assert driver.read(session) == state


def test_what_is_not_there_is_refused_with_its_class(session: QmpSession) -> None:
    with pytest.raises(QmpRefused) as caught:
        session.execute("qom-get", path="/objects/none", property="size")
    assert caught.value.error_class == "DeviceNotFound"
    with pytest.raises(QmpRefused) as caught:
        session.execute("no-such-command")
    assert caught.value.error_class == "CommandNotFound"
    with pytest.raises(QmpRefused):
        session.execute("query-balloon")


def test_a_note_is_kept_over_sessions_and_replaced(address: QmpAddress) -> None:
    first, second = Note(7, None, 128 * MIB), Note(8, resources(2500, 9), 128 * MIB)
    with qmp_session(address, timeout_s=30) as session:
        assert read_note(session) is None
        write_note(session, first)
        assert read_note(session) == first
    with qmp_session(address, timeout_s=30) as session:
        assert read_note(session) == first
        write_note(session, second)
    with qmp_session(address, timeout_s=30) as session:
        assert read_note(session) == second


def test_a_second_client_waits_until_the_first_has_gone(address: QmpAddress) -> None:
    with qmp_session(address, timeout_s=30) as first:
        with pytest.raises(PeerUnreachable, match="busy"), qmp_session(address, timeout_s=0.3):
            raise AssertionError("two at once")
        assert isinstance(first.execute("query-status"), dict)
    with qmp_session(address, timeout_s=30) as next_one:
        assert isinstance(next_one.execute("query-status"), dict)
