"""What the control interface says of a VM is believed only where it makes sense."""

from __future__ import annotations

from typing import Any

import pytest

from app.adapters.platform_sim import SimPlatform
from app.ports.vm import VmKey

VM = {
    "namespace": "sim",
    "name": "a",
    "uid": "uid-a",
    "node": "node-1",
    "min": {"cpu_m": 250, "mem": 1},
    "max": {"cpu_m": 4_000, "mem": 16},
    "use": {"cpu_m": 500, "mem": 2},
    "observed": {"cpu_m": 500, "mem": 2},
    "slot_bytes": 2**30,
    "mode": "scale",
    "monitor": "none",
    "metrics": None,
    "monitor_address": None,
}


def told(monkeypatch: pytest.MonkeyPatch, *vms: dict[str, Any]) -> tuple[list[str], list[tuple[str, str]]]:
    """Keys of the VMs that are taken, and those that can't be read with the reason."""
    platform = SimPlatform("http://127.0.0.1:1")
    answer = {"cursor": "1", "full": True, "vms": list(vms), "removed": []}
    monkeypatch.setattr(platform, "_call", lambda *_, **__: answer)
    change = platform.changes(None, wait_s=0)
    platform.close()
    return [vm.key for vm in change.updated], list(change.unreadable)


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"min": {"cpu_m": 8_000, "mem": 1}}, "min must not exceed max"),
        ({"min": {"cpu_m": 250, "mem": 17}}, "min must not exceed max"),
        ({"observed": {"cpu_m": 2**52, "mem": 2}}, "512000"),
        ({"use": {"cpu_m": 0, "mem": 2}}, "greater than 0"),
        ({"max": {"cpu_m": 1.5, "mem": 16}}, "integer"),
    ],
)
def test_a_vm_that_makes_no_sense_is_named_and_the_others_are_taken(
    monkeypatch: pytest.MonkeyPatch, wrong: dict[str, Any], reason: str
) -> None:
    taken, unreadable = told(monkeypatch, VM | wrong, VM | {"name": "b"})
    assert taken == [VmKey("sim/b")]
    ((name, why),) = unreadable
    assert name == "sim/a"
    assert reason in why
