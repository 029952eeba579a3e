"""The inventory file: each mistake with its line and path, the right entries go on."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.config.vm_inventory import InventoryFile, read_inventory

GOOD = """
  - name: good
    min: {cpu: 1, memory: 512Mi}
    max: {cpu: 4, memory: 2Gi}
    qmp: /run/good
    guest: 127.0.0.1:1
"""


def read(tmp_path: Path, text: str) -> InventoryFile:
    file = tmp_path / "vms.yaml"
    file.write_text(text)
    return read_inventory(file)


def problems(tmp_path: Path, entry: str) -> list[str]:
    """What is told of an entry (its first line is line 9), without the file's name; the good VM is there."""
    found = read(tmp_path, f"# VMs\n\nvms:{GOOD}  - {entry}")
    assert [each.name for each in found.entries] == ["good"]
    assert all(problem.text.startswith(f"{tmp_path}/vms.yaml:") for problem in found.problems)
    return [problem.text.removeprefix(f"{tmp_path}/vms.yaml:") for problem in found.problems]


def entry(**fields: str) -> str:
    plain = {
        "name": "other",
        "min": "{cpu: 1, memory: 512Mi}",
        "max": "{cpu: 4, memory: 2Gi}",
        "qmp": "/run/other",
        "guest": "127.0.0.1:2",
    }
    return "\n    ".join(f"{name}: {value}" for name, value in {**plain, **fields}.items())


def test_a_right_file_is_read_whole(tmp_path: Path) -> None:
    more = "  - " + entry(labels="{tier: web}", memoryDriver="dimm", cpuDriver="qmp", guest="'[::1]:2'")
    found = read(tmp_path, f"vms:{GOOD}{more}")
    assert (found.problems, found.is_readable) == ((), True)
    assert [each.key for each in found.entries] == ["local/good", "local/other"]
    assert found.entries[1].labels == {"tier": "web"}


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"max": "{cpu: 0, memory: 2Gi}"}, "11: .vms[1].max.cpu: must not be zero"),
        ({"max": "\n      cpu: 4\n      memory: x"}, "13: .vms[1].max.memory: must be a quantity of bytes"),
        ({"qpm": "/x"}, "14: .vms[1].qpm: unknown field (did you mean qmp?)"),
        ({"name": "Big"}, "9: .vms[1].name: must be 1 to 63 small letters"),
        ({"qmp": "run/x"}, "12: .vms[1].qmp: must be the absolute path of a unix socket, or HOST:PORT"),
        ({"qmp": "host:0"}, "12: .vms[1].qmp: must be HOST:PORT"),
        ({"guest": "host"}, "13: .vms[1].guest: must be HOST:PORT"),
        ({"guest": "host:70000"}, "13: .vms[1].guest: must be HOST:PORT"),
        ({"min": "{cpu: 5, memory: 512Mi}"}, "9: .vms[1]: min must not be above max"),
        (
            {"min": "{cpu: 1, memory: 500Mi}"},
            "9: .vms[1]: min.memory and max.memory must be multiples of slot",
        ),
        ({"cpuDriver": "magic"}, "14: .vms[1].cpuDriver: must be one of 'guest' or 'qmp'"),
        (
            {"scaling": "{loadAverageFractionTarget: 3}"},
            "14: .vms[1].scaling.loadAverageFractionTarget: must be above 0",
        ),
        ({"memoryDevice": "a,b=c"}, "14: .vms[1].memoryDevice: must be the id of a device"),
        ({"tokenFile": "token"}, "14: .vms[1].tokenFile: must be an absolute path"),
        ({"qmp": "/run/good"}, "9: .vms[1]: qmp /run/good belongs to local/good already"),
        ({"guest": "127.0.0.1:1"}, "9: .vms[1]: guest 127.0.0.1:1 belongs to local/good already"),
        ({"name": "good"}, "9: .vms[1].name: local/good is there twice; the first one counts"),
    ],
)
def test_a_mistake_is_told_with_its_line_and_path(
    tmp_path: Path, fields: dict[str, str], problem: str
) -> None:
    assert [text[: len(problem)] for text in problems(tmp_path, entry(**fields))] == [problem]


def test_each_mistake_of_an_entry_is_told(tmp_path: Path) -> None:
    found = problems(tmp_path, "name: x\n    nmae: y")
    assert [text.partition(": ")[2].partition(":")[0] for text in found] == [
        ".vms[1].min",
        ".vms[1].max",
        ".vms[1].qmp",
        ".vms[1].nmae",
    ]


@pytest.mark.parametrize("raw", ["5", "text", "[1, 2]", "null"])
def test_an_entry_that_is_no_object_is_told(tmp_path: Path, raw: str) -> None:
    assert len(problems(tmp_path, raw)) == 1


def test_a_guest_driver_without_a_guest_and_a_vm_without_a_monitor_are_told(tmp_path: Path) -> None:
    bare = entry().replace("\n    guest: 127.0.0.1:2", "")
    assert "cpuDriver guest needs the guest daemon's address" in problems(tmp_path, bare)[0]
    assert "monitor is missing" in problems(tmp_path, bare + "\n    cpuDriver: qmp")[0]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("vms: [", "not YAML: line 1"),
        ("a: 1\nb: 2", "must be an object with one list, vms"),
        ("vms: []\nmore: 1", "must be an object with one list, vms"),
        ("", "must be an object with one list, vms"),
        ("vms: 5", "must be an object with one list, vms"),
        ("vms:\n- !!python/object:os.system {}", "a tag"),
        ("vms:\n- name: a\n  name: b", "line 3, column 3: a key that is there twice"),
    ],
)
def test_a_file_that_can_t_be_read_is_told_and_says_nothing_of_any_vm(
    tmp_path: Path, text: str, problem: str
) -> None:
    found = read(tmp_path, text)
    assert (found.is_readable, found.entries) == (False, ())
    assert [problem in each.text for each in found.problems] == [True]


def test_a_missing_file_is_told_by_name(tmp_path: Path) -> None:
    found = read_inventory(tmp_path / "none.yaml")
    assert not found.is_readable
    assert "none.yaml" in found.problems[0].text
