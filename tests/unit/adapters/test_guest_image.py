"""What goes into the guest image: the archive's form, the modules' order, the daemon's files."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from app.adapters.image_cpio import CpioFile, CpioLink, cpio_archive
from app.adapters.image_kernel import FILES, Kernel, initramfs, load_order
from app.adapters.image_packages import LEFT_OUT, need_tools
from app.adapters.image_tree import guest_modules, library_files
from app.errors import ConfigurationError

ROOT = Path(__file__).resolve().parents[3]


def read_cpio(archive: bytes) -> dict[str, tuple[int, bytes]]:
    """Mode and content by name, of a "newc" archive; the trailer must be its end."""
    found: dict[str, tuple[int, bytes]] = {}
    at = 0
    while True:
        assert archive[at : at + 6] == b"070701"
        fields = [int(archive[at + 6 + 8 * n : at + 14 + 8 * n], 16) for n in range(13)]
        name = archive[at + 110 : at + 110 + fields[11] - 1].decode()
        at = -(-(at + 110 + fields[11]) // 4) * 4
        content = archive[at : at + fields[6]]
        at = -(-(at + fields[6]) // 4) * 4
        if name == "TRAILER!!!":
            assert archive[at:] == b""
            return found
        found[name] = (fields[1], content)


def module(needs: str) -> bytes:
    return b"\x7fELF\0license=GPL\0depends=" + needs.encode() + b"\0name=x\0"


def test_an_archive_has_directories_before_what_is_in_them() -> None:
    found = read_cpio(cpio_archive({"a/b/c": CpioFile(b"five!", 0o755), "a/l": CpioLink("/x")}))
    assert list(found) == ["a", "a/b", "a/b/c", "a/l"]
    assert found["a/b"][0] == 0o040755
    assert found["a/b/c"] == (0o100755, b"five!")
    assert found["a/l"] == (0o120777, b"/x")


def test_an_archive_does_not_depend_on_the_order_of_its_entries() -> None:
    one, two = CpioFile(b"1"), CpioFile(b"2")
    assert cpio_archive({"x": one, "y/z": two}) == cpio_archive({"y/z": two, "x": one})


def test_a_module_comes_after_those_that_it_needs_and_what_is_built_in_is_passed_over() -> None:
    modules = {
        "virtio_mem": module("virtio"),
        "virtio": module("virtio_ring"),
        "virtio_ring": module(""),
        "virtio_net": module("net-failover,virtio"),
        "net_failover": module("failover"),
        "failover": module(""),
        "unwanted": module(""),
    }
    order = load_order(modules)
    assert order.index("virtio_ring") < order.index("virtio") < order.index("virtio_mem")
    assert order.index("failover") < order.index("net_failover") < order.index("virtio_net")
    assert "unwanted" not in order
    assert len(order) == len(set(order)) == 6


def test_memory_is_made_movable_before_virtio_mem_is_loaded() -> None:
    files = read_cpio(initramfs(Kernel(b"", {"virtio_mem": module("")}), b"busybox"))
    script = files["init"][1].decode()
    assert script.index("online_movable >") < script.index("insmod")
    assert files["modules/order"][1] == b"virtio_mem.ko\n"
    assert files["bin/busybox"] == (0o100755, b"busybox")


def test_the_image_carries_the_modules_of_the_guest_distribution() -> None:
    project = tomllib.loads((ROOT / "guest/pyproject.toml").read_text())
    included = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"].values()
    carried = set(guest_modules())
    assert carried == {
        path.relative_to(ROOT).as_posix()
        for name in included
        for path in ([ROOT / name] if name.endswith(".py") else sorted((ROOT / name).glob("*.py")))
    }


def test_the_image_carries_the_guest_s_two_libraries_and_no_tests_of_theirs() -> None:
    names = set(library_files())
    assert {"h11/__init__.py", "wsproto/__init__.py"} <= names
    assert not [name for name in names if "/tests/" in name]


def test_the_daemon_in_the_image_serves_cpus_and_load_with_a_token() -> None:
    text = (FILES / "daemon.sh").read_text()
    assert "--cpus --load --token-file /run/vmscaler/token" in text
    assert text.index("oom_score_adj") < text.index("exec")


@pytest.mark.parametrize(
    "name", ["libc6", "libssl3", "libffi8", "zlib1g", "python3.11-minimal", "libssl3t64"]
)
def test_what_python_needs_is_not_left_out(name: str) -> None:
    assert LEFT_OUT.fullmatch(name) is None


def test_a_missing_tool_is_one_line_that_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigurationError) as caught:
        need_tools("apt-get")
    assert "\n" not in str(caught.value)
    assert "apt-get install" in str(caught.value)
