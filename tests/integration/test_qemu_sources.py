"""The sources of VMs, the host as a node, and how the platform is built from the configuration."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from app.adapters.host_capacity import host_capacity
from app.adapters.qemu_accel import choose_accelerator, has_kvm
from app.adapters.qemu_inventory import QemuInventory
from app.adapters.qemu_platform import QemuPlatform
from app.bootstrap.platform import build_platform
from app.bootstrap.qemu import host_node
from app.config import build_settings
from app.core.permits import Amount
from app.errors import ConfigurationError


def entry(name: str, **fields: object) -> dict[str, object]:
    size = {"cpu": 1, "memory": "1Gi"}
    plain = {
        "name": name,
        "min": size,
        "max": size,
        "qmp": f"/run/{name}",
        "monitor": "none",
        "cpuDriver": "qmp",
    }
    return {**plain, **fields}


def write(file: Path, *entries: object) -> None:
    fresh = file.with_suffix(".new")
    fresh.write_text(json.dumps({"vms": list(entries)}))
    fresh.replace(file)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "vms.yaml"


def names(inventory: QemuInventory) -> list[str]:
    return list(inventory.read().entries)


def test_the_file_is_read_again_when_it_changes(file: Path) -> None:
    write(file, entry("a"))
    inventory = QemuInventory(file, None)
    first = inventory.read()
    assert inventory.read() is first
    write(file, entry("a"), entry("b"))
    assert names(inventory) == ["local/a", "local/b"]
    write(file, entry("b"))
    assert names(inventory) == ["local/b"]


def test_an_entry_that_becomes_wrong_goes_on_as_it_was(file: Path) -> None:
    write(file, entry("a"), entry("b"))
    inventory = QemuInventory(file, None)
    before = inventory.read().entries["local/a"]
    write(file, entry("a", max={"cpu": 0, "memory": "1Gi"}), entry("b", billingId="x"))
    known = inventory.read()
    assert known.entries["local/a"] == before
    assert known.entries["local/b"].billing_id == "x"
    assert [problem.subject for problem in known.problems] == ["local/a"]
    write(file, entry("a"), entry("b"))
    assert inventory.read().problems == ()


@pytest.mark.parametrize("text", ["vms: [", "", "nothing: []"])
def test_a_file_that_breaks_or_is_gone_takes_no_vm_away(file: Path, text: str) -> None:
    write(file, entry("a"))
    inventory = QemuInventory(file, None)
    inventory.read()
    file.write_text(text)
    assert names(inventory) == ["local/a"]
    assert inventory.read().problems != ()
    file.unlink()
    assert names(inventory) == ["local/a"]
    write(file)
    assert names(inventory) == []


def test_an_entry_whose_socket_was_given_to_another_is_not_kept(file: Path) -> None:
    write(file, entry("a"))
    inventory = QemuInventory(file, None)
    inventory.read()
    write(file, entry("b", qmp="/run/a"), entry("a", qmp="run"))
    assert names(inventory) == ["local/b"]


def test_host_capacity_is_what_the_kernel_says_within_the_container_s_limit(tmp_path: Path) -> None:
    meminfo, limit = tmp_path / "meminfo", tmp_path / "memory.max"
    meminfo.write_text("MemTotal:        2048000 kB\nMemFree: 1 kB\n")
    assert host_capacity(meminfo, limit).mem == 2_048_000 * 1024
    limit.write_text("max\n")
    assert host_capacity(meminfo, limit).mem == 2_048_000 * 1024
    limit.write_text("1048576\n")
    assert host_capacity(meminfo, limit).mem == 1_048_576
    meminfo.write_text("nothing")
    with pytest.raises(ConfigurationError, match="no MemTotal"):
        host_capacity(meminfo, limit)


def test_the_host_is_a_node_minus_its_reserve() -> None:
    total = host_capacity()
    settings = build_settings(
        {"platform": {"kind": "qemu"}, "qemu": {"reservedCpu": "250m", "reservedMemory": "64Mi"}}, {}
    )
    assert host_node(settings) == (socket.gethostname(), total.minus(Amount(250, 64 << 20)))


@pytest.mark.parametrize(("field", "value"), [("reservedCpu", 500), ("reservedMemory", "1Pi")])
def test_a_reserve_that_leaves_nothing_is_told(field: str, value: object) -> None:
    settings = build_settings({"platform": {"kind": "qemu"}, "qemu": {field: value}}, {})
    with pytest.raises(ConfigurationError, match=field):
        host_node(settings)


def test_the_configuration_builds_the_platform(tmp_path: Path, file: Path) -> None:
    write(file, entry("a"), entry("b", labels={"watch": "true"}))
    section = {"inventory": str(file), "stateDirectory": str(tmp_path / "state")}
    label = {"kind": "qemu", "observeLabel": "watch"}
    platform = build_platform(build_settings({"platform": label, "qemu": section}, {}))
    try:
        assert isinstance(platform, QemuPlatform)
        change = platform.changes(None, wait_s=0)
        assert {name for name, _ in change.unreadable} == {"local/a", "local/b"}
    finally:
        platform.close()


def test_without_any_source_of_vms_the_platform_is_refused() -> None:
    settings = build_settings({"platform": {"kind": "qemu"}, "qemu": {"localVms": False}}, {})
    with pytest.raises(ConfigurationError, match="no VMs to scale"):
        build_platform(settings)


@pytest.mark.parametrize(
    ("does", "works", "limit_s"),
    [
        ("exec sleep 60", False, 0.2),
        ("exit 1", False, 30.0),
        ("echo 'Probing EDD (edd=off to disable)... ok'; exec sleep 60", False, 0.5),
        ("yes 'not a kernel' | head -c 200000; exec sleep 60", False, 30.0),
        ("echo 'SeaBIOS'; echo '[ 0.0] Linux version 6.1.0'; exec sleep 60", True, 30.0),
    ],
    ids=["hangs", "ends", "crawls after its BIOS", "talks for ever", "boots"],
)
def test_kvm_is_used_if_a_kernel_comes_alive_with_it(
    tmp_path: Path, does: str, works: bool, limit_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.adapters.qemu_accel.os.access", lambda *_: True)
    program, kernel = tmp_path / "qemu", tmp_path / "vmlinuz"
    program.write_text(f"#!/bin/sh\n{does}\n")
    program.chmod(0o755)
    assert has_kvm(str(program), kernel, limit_s=limit_s) is works
    assert choose_accelerator("tcg", str(program), kernel) == "tcg"
    assert choose_accelerator("kvm", str(program), kernel) == "kvm"
