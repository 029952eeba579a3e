"""The command line of a VM's QEMU (the facts behind each flag are in docs/platforms/qemu.md).

QEMU runs in the VM's directory, so sockets and files are named relative to it: a socket's path may have 107
bytes at most. No secret is in it: the guest's token is in a file that QEMU reads.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from app.adapters.qemu_directory import CONSOLE, CONSOLE_LOG, PID, QMP, TOKEN, LocalVm

QEMU = "qemu-system-x86_64"
GUEST_PORT = 9100
"""Where the daemon in the guest listens."""
MIB = 1024 * 1024

# swiotlb=noforce gives 64 MiB back; maxcpus=1 starts like a VM with one CPU; panic=-1 reboots at once.
_KERNEL_LINE = "console=ttyS0 quiet panic=-1 swiotlb=noforce maxcpus=1"
_SANDBOX = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"


@dataclass(frozen=True, slots=True)
class Launch:
    """What is chosen at each start: accelerator, port on loopback, the image's files."""

    accelerator: str
    port: int
    kernel: Path
    initramfs: Path
    root: Path


def qemu_command(program: str, vm: LocalVm, launch: Launch) -> list[str]:
    """Program and arguments."""
    forward = f"hostfwd=tcp:127.0.0.1:{launch.port}-:{GUEST_PORT}"
    root = f"if=none,id=root,format=raw,readonly=on,file.locking=off,file={_escaped(launch.root)}"
    return [
        program,
        *("-name", f"guest={vm.name},process=vmscaler-{vm.name}"[:200]),
        *("-uuid", vm.uid),
        *("-machine", "q35", "-accel", launch.accelerator),
        *(() if launch.accelerator == "tcg" else ("-cpu", "host")),
        *_cpus(vm),
        *_memory(vm),
        *("-nodefaults", "-no-user-config", "-display", "none", "-sandbox", _SANDBOX),
        *("-kernel", str(launch.kernel), "-initrd", str(launch.initramfs), "-append", _KERNEL_LINE),
        *("-drive", root, "-device", "virtio-blk-pci,drive=root"),
        *("-netdev", f"user,id=n0,restrict=on,{forward}", "-device", "virtio-net-pci,netdev=n0,romfile="),
        *(
            "-chardev",
            f"socket,id=console,path={CONSOLE},server=on,wait=off,logfile={CONSOLE_LOG},logappend=on",
        ),
        *("-serial", "chardev:console"),
        *("-fw_cfg", f"name=opt/vmscaler/token,file={TOKEN}"),
        *("-fw_cfg", f"name=opt/vmscaler/name,string={vm.name}"),
        *("-qmp", f"unix:{QMP},server=on,wait=off", "-pidfile", PID),
    ]


def _cpus(vm: LocalVm) -> list[str]:
    most = -(-vm.max.milli_cpu // 1000)
    first = f"cpus=1,maxcpus={most}" if vm.cpu_driver == "qmp" else f"cpus={most}"
    return ["-smp", f"{first},sockets=1,cores={most},threads=1"]


def _memory(vm: LocalVm) -> list[str]:
    """The least to start with, and room for the rest in the way that the driver wants."""
    least, most = vm.min.size_bytes, vm.max.size_bytes
    room = most - least
    if vm.memory_driver == "balloon":
        return ["-m", f"{most // MIB}M", "-device", "virtio-balloon-pci,id=balloon0"]
    if room == 0:
        return ["-m", f"{least // MIB}M"]
    if vm.memory_driver == "dimm":
        return ["-m", f"{least // MIB}M,slots={min(room // vm.slot_bytes, 256)},maxmem={most // MIB}M"]
    return [
        *("-m", f"{least // MIB}M,maxmem={most // MIB}M"),
        *("-object", f"memory-backend-ram,id=vmem0,size={room // MIB}M,reserve=off"),
        *("-device", "virtio-mem-pci,id=vm0,memdev=vmem0,node=0,requested-size=0"),
    ]


def _escaped(path: Path) -> str:
    """A path as a value among others: QEMU doubles commas."""
    return str(path).replace(",", ",,")
