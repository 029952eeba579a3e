"""What the demo of real VMs writes and needs, and how it watches guests; with a fake in QEMU's place."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from app.adapters.image_build import Image
from app.adapters.processes import GuardedLauncher
from app.adapters.qemu_directory import VmDirectory, check_local_vm
from app.adapters.qemu_guest import GuestDaemon
from app.cli.demo_guests import GuestWatch
from app.cli.demo_run import StopRequest
from app.cli.demo_setup import DemoSetup, control_plane_specs, make_directory
from app.cli.demo_vm import bring_up
from app.cli.demo_vm_script import GuestFacts, LoadOrder
from app.cli.demo_vm_setup import describe_vms, example_commands, need_qemu, prepare_vms, vms_of
from app.config.loading import load_settings
from app.errors import ConfigurationError
from app.ports.vm import Address
from tests.fakes.demo_views import fleet_view, vm_row
from tests.fakes.qemu import FakeQemu
from tests.fleet_process import until


@pytest.fixture
def setup() -> Iterator[DemoSetup]:
    short = make_directory({})
    setup = prepare_vms({"XDG_RUNTIME_DIR": str(short), "PATH": "/bin", "CONFIG_PATH": "/other"})
    yield setup
    for port in (setup.ports.flower, setup.ports.control, setup.ports.metrics):
        port.close()
    shutil.rmtree(short)


def test_the_written_configuration_scales_the_demo_s_own_vms(setup: DemoSetup) -> None:
    settings = load_settings(None, setup.environment)
    assert settings.platform.kind == "qemu"
    assert settings.qemu.state_directory == str(setup.directory)
    (node,) = settings.node_scheduler.nodes
    assert node.name == socket.gethostname()
    assert node.milli_cpu == 8000
    assert setup.directory.stat().st_mode & 0o777 == 0o700


def test_a_unit_is_of_the_vms_own_shape(setup: DemoSetup) -> None:
    unit = load_settings(None, setup.environment).scaling.compute_unit
    for vm in describe_vms(Image(Path("/image"), "")):
        check_local_vm(vm)
        assert (unit.milli_cpu, unit.mem) == (vm.min.milli_cpu, vm.min.size_bytes // vm.slot_bytes)


def test_the_console_of_a_guest_that_never_answers_is_kept_and_named(
    setup: DemoSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.cli.demo_vm.UP_LIMIT_S", 0.0)
    vms = vms_of(setup, Image(Path("/image"), ""))

    def start(directory: VmDirectory, *, accelerator: str) -> bool:
        directory.file("console.log").write_text(f"{directory.name} hangs\n")
        return True

    monkeypatch.setattr(vms, "start", start)
    monkeypatch.setattr(vms, "is_up", lambda directory: directory.name == "vm1")
    described = describe_vms(Image(Path("/image"), ""))
    launcher = GuardedLauncher(setup.directory)
    try:
        with pytest.raises(ConfigurationError, match=r"see .*/vm2-console\.log") as caught:
            bring_up(vms, described, launcher, StopRequest(), "auto", setup.logs)
    finally:
        launcher.close()
    assert caught.value.source == "vm2"
    assert (setup.logs / "vm2-console.log").read_text() == "vm2 hangs\n"


def test_the_vms_are_found_where_the_workers_look(setup: DemoSetup) -> None:
    image = Image(Path("/image"), "")
    vms = vms_of(setup, image)
    for vm in describe_vms(image):
        vms.create(vm)
    assert [each.name for each in vms.all()] == ["vm1", "vm2"]
    assert all(str(setup.directory) in line for line in example_commands(setup, Path("vmscaler")))
    names = {spec.name for spec in control_plane_specs(setup)}
    assert names == {"scheduler", "worker1", "worker2", "beat", "flower"}


def test_a_missing_qemu_is_one_line_that_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigurationError) as caught:
        need_qemu()
    assert str(caught.value).endswith("as root: apt-get install qemu-system-x86 e2fsprogs")
    assert "\n" not in str(caught.value)


def test_guests_are_asked_and_get_the_loads_of_the_plan(tmp_path: Path) -> None:
    told: list[tuple[Mapping[str, GuestFacts], bool]] = []

    def plan(_: float, facts: Mapping[str, GuestFacts], is_ready: bool) -> Sequence[LoadOrder]:
        told.append((facts, is_ready))
        return [LoadOrder("a", 4000, 0, 60)] if is_ready else []

    with FakeQemu(tmp_path) as qemu:
        guest = GuestDaemon(Address("127.0.0.1", qemu.guest_port), qemu.token_file)
        watch = GuestWatch({"a": guest}, plan)
        watch.start()
        try:
            assert watch.notes(None, 0.0) == ["a says nothing: not asked yet"]
            until(lambda: bool(told), "the guest has answered")
            assert told[0] == ({"a": GuestFacts(1, 984 << 20, 884 << 20, False, None)}, False)
            assert watch.notes(None, 0.0) == ["a says: nproc 1, MemTotal 984 MiB"]
            watch.notes(fleet_view([vm_row("local/a")]), 0.0)
            until(lambda: qemu.machine.load is not None, "the load is on")
            qemu.machine.is_silent = True
            until(lambda: "says nothing" in watch.notes(None, 0.0)[0], "it is told as silent")
        finally:
            qemu.machine.is_silent = False
            watch.stop()
    assert qemu.machine.load is not None
    assert qemu.machine.load["milli_cpu"] == 4000


def test_a_plan_that_fails_is_told_at_the_end(tmp_path: Path) -> None:
    def plan(_: float, facts: Mapping[str, GuestFacts], is_ready: bool) -> Sequence[LoadOrder]:
        raise ZeroDivisionError

    watch = GuestWatch({}, plan)
    watch.start()
    until(lambda: not watch._thread.is_alive(), "it has ended")
    with pytest.raises(ZeroDivisionError):
        watch.stop()
