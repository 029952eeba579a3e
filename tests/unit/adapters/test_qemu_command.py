"""The command line of a VM's QEMU."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.adapters.qemu_command import Launch, qemu_command
from app.adapters.qemu_directory import LocalVm


def command(accelerator: str = "tcg", root: str = "/i/root.ext4", **fields: object) -> str:
    plain = {
        "name": "web1",
        "uid": "00000000-0000-4000-8000-000000000001",
        "node": "n",
        "min": {"cpu": "500m", "memory": "512Mi"},
        "max": {"cpu": "2500m", "memory": "2Gi"},
        "slot": "128Mi",
        "image": "/i",
    }
    vm = LocalVm.model_validate({**plain, **fields})
    launch = Launch(accelerator, 4711, Path("/i/vmlinuz"), Path("/i/initrd.img"), Path(root))
    return " ".join(qemu_command("qemu", vm, launch))


def test_virtio_mem_starts_with_the_least_and_has_room_for_the_most() -> None:
    text = command()
    assert "-m 512M,maxmem=2048M" in text
    assert "-object memory-backend-ram,id=vmem0,size=1536M,reserve=off" in text
    assert "-device virtio-mem-pci,id=vm0,memdev=vmem0,node=0,requested-size=0" in text


def test_dimms_have_a_slot_each_and_the_balloon_has_all() -> None:
    assert "-m 512M,slots=12,maxmem=2048M" in command(memoryDriver="dimm")
    assert "-m 2048M -device virtio-balloon-pci,id=balloon0" in command(memoryDriver="balloon")
    assert "maxmem" not in command(memoryDriver="balloon")


def test_a_vm_whose_memory_does_not_change_has_no_device_for_it() -> None:
    text = command(max={"cpu": 1, "memory": "512Mi"})
    assert "-m 512M " in text
    assert "virtio-mem" not in text


def test_all_cpus_are_there_for_the_guest_and_one_for_qmp() -> None:
    assert "-smp cpus=3,sockets=1,cores=3,threads=1" in command()
    assert "-smp cpus=1,maxcpus=3,sockets=1,cores=3,threads=1" in command(cpuDriver="qmp")
    # Both start like a VM with one CPU.
    assert "maxcpus=1 " in command()


def test_it_is_confined_and_reached_on_loopback_only() -> None:
    text = command()
    assert "-sandbox on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny" in text
    assert "user,id=n0,restrict=on,hostfwd=tcp:127.0.0.1:4711-:9100" in text
    assert "-qmp unix:qmp.sock,server=on,wait=off" in text
    assert "readonly=on,file.locking=off" in text


def test_the_token_is_a_file_s_name_only() -> None:
    assert "-fw_cfg name=opt/vmscaler/token,file=token" in command()


@pytest.mark.parametrize(("accelerator", "cpu"), [("tcg", None), ("kvm", "-cpu host")])
def test_the_host_s_cpu_is_shown_under_kvm(accelerator: str, cpu: str | None) -> None:
    text = command(accelerator)
    assert f"-accel {accelerator}" in text
    assert ("-cpu host" in text) == (cpu is not None)


def test_a_comma_in_a_path_ends_no_option() -> None:
    assert "file=/i,,readonly=off/root.ext4" in command(root="/i,readonly=off/root.ext4")
