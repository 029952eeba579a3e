"""The kernel of the guest image: its bzImage, and an initramfs with the few modules that a guest needs."""

from __future__ import annotations

import lzma
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from app.adapters.image_cpio import CpioEntry, CpioFile, CpioLink, cpio_archive
from app.adapters.image_packages import Package, open_package
from app.errors import ConfigurationError

MODULES = (
    "virtio_pci",
    "virtio_net",
    "virtio_blk",
    "crc32c_generic",
    "ext4",
    "qemu_fw_cfg",
    "virtio_balloon",
    "virtio_mem",
)
"""In the order in which they are loaded, after those that they need; absent ones are built in."""

FILES = Path(__file__).with_name("image")
"""The scripts that go into the image."""

_DEPENDS = re.compile(rb"\0depends=([A-Za-z0-9_,-]*)\0")
_MODULE_PATH = re.compile(r"(?:usr/)?lib/modules/[^/]+/kernel/.*/([^/]+)\.ko(\.xz)?")


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel as it is in its package: the image, and its modules' contents by name."""

    image: bytes
    modules: Mapping[str, bytes]


def read_kernel(package: Package) -> Kernel:
    """Take the kernel, and the modules of `MODULES` with what they need, out of the package.

    Raises:
        ConfigurationError: it holds no kernel.
    """
    image = b""
    modules: dict[str, bytes] = {}
    with open_package(package) as archive:
        for member in archive:
            path = member.name.removeprefix("./")
            found = _MODULE_PATH.fullmatch(path)
            is_kernel = path.startswith("boot/vmlinuz-")
            if not member.isfile() or not (found or is_kernel):
                continue
            file = archive.extractfile(member)
            content = b"" if file is None else file.read()
            if found is None:
                image = content
            elif _may_be_needed(path):
                modules[found[1].replace("-", "_")] = lzma.decompress(content) if found[2] else content
    if not image:
        raise ConfigurationError([f"{package.path.name}: no kernel in it"], source="image")
    return Kernel(image, modules)


def initramfs(kernel: Kernel, busybox: bytes) -> bytes:
    """The archive that finds the root file system."""
    order = load_order(kernel.modules)
    entries: dict[str, CpioEntry] = {
        "init": CpioFile((FILES / "initrd-init.sh").read_bytes(), 0o755),
        "bin/busybox": CpioFile(busybox, 0o755),
        # The kernel calls it by this name for what a module asks for.
        "sbin/modprobe": CpioLink("/bin/busybox"),
        "modules/order": CpioFile("".join(f"{name}.ko\n" for name in order).encode()),
    }
    entries.update({f"modules/{name}.ko": CpioFile(kernel.modules[name]) for name in order})
    # Where file systems are mounted; a directory needs something in it to be there.
    entries.update({f"{name}/.here": CpioFile(b"") for name in ("proc", "sys", "dev", "root")})
    return cpio_archive(entries)


def load_order(modules: Mapping[str, bytes]) -> list[str]:
    """Names of the modules in `MODULES` and of what they need, each after what it needs."""
    order: dict[str, None] = {}

    def add(name: str) -> None:
        if name in order or name not in modules:
            return
        found = _DEPENDS.search(modules[name])
        for needed in found[1].decode().split(",") if found else ():
            add(needed.replace("-", "_"))
        order[name] = None

    for name in MODULES:
        add(name)
    return list(order)


def _may_be_needed(path: str) -> bool:
    """Reading all of 3,000 modules would take memory and time for nothing."""
    return any(
        part in path
        for part in (
            "/virtio",
            "/net/core/",
            "/net_failover",
            "/fs/ext4/",
            "/fs/jbd2/",
            "/fs/mbcache",
            "/crc",
            "/libcrc",
            "/crypto/",
            "/lib/",
            "/firmware/",
        )
    )
