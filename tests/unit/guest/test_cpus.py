"""CPUs online and offline, on a /sys made of files."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from app.guest.cpus import CpuCount, CpuSwitch


class Sys:
    """A /sys/devices/system/cpu whose `online` list follows the files; CPU 0 has no `online` file."""

    def __init__(self, root: Path, count: int, online: int) -> None:
        self.root = root
        (root / "present").write_text(f"0-{count - 1}\n" if count > 1 else "0\n")
        for cpu in range(1, count):
            (root / f"cpu{cpu}").mkdir()
            (root / f"cpu{cpu}/online").write_text("1" if cpu < online else "0")
        self.refresh()

    def state(self) -> list[int]:
        files = sorted(self.root.glob("cpu*/online"), key=lambda path: int(path.parent.name[3:]))
        return [0, *(int(path.parent.name[3:]) for path in files if path.read_text().startswith("1"))]

    def refresh(self) -> None:
        (self.root / "online").write_text(",".join(map(str, self.state())) + "\n")


def set_online(root: Path, wanted: int) -> CpuCount:
    return asyncio.run(CpuSwitch(root).set_online(wanted))


def test_the_count_is_read_from_lists_of_ranges(tmp_path: Path) -> None:
    (tmp_path / "present").write_text("0-7\n")
    (tmp_path / "online").write_text("0-2,5,7\n")
    assert asyncio.run(CpuSwitch(tmp_path).count()) == CpuCount(5, 8)


@pytest.mark.parametrize(
    ("before", "wanted", "after"),
    [(4, 2, [0, 1]), (1, 3, [0, 1, 2]), (2, 2, [0, 1]), (4, 1, [0]), (1, 4, [0, 1, 2, 3])],
)
def test_the_lowest_cpus_are_kept(tmp_path: Path, before: int, wanted: int, after: list[int]) -> None:
    sys = Sys(tmp_path, 4, before)
    set_online(tmp_path, wanted)
    assert sys.state() == after


@pytest.mark.parametrize("wanted", [0, -1, 5])
def test_a_number_out_of_range_is_refused(tmp_path: Path, wanted: int) -> None:
    sys = Sys(tmp_path, 4, 2)
    with pytest.raises(ValueError, match="1 to 4"):
        set_online(tmp_path, wanted)
    assert sys.state() == [0, 1]


def test_a_cpu_that_can_not_be_taken_away_is_passed_over(tmp_path: Path) -> None:
    sys = Sys(tmp_path, 4, 4)
    (tmp_path / "cpu3/online").unlink()
    (tmp_path / "cpu3/online").mkdir()
    with pytest.raises(OSError):
        set_online(tmp_path, 3)
    (tmp_path / "cpu3/online").rmdir()
    assert sys.state() == [0, 1]


def test_a_kernel_that_refuses_all_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "present").write_text("0-1\n")
    (tmp_path / "online").write_text("0-1\n")
    with pytest.raises(OSError):
        set_online(tmp_path, 1)


@pytest.mark.parametrize("text", ["", "a", "0-", "-1", "0,,1", "0-99999", "3 4"])
def test_what_is_no_list_of_cpus_is_an_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "present").write_text("0-1\n")
    (tmp_path / "online").write_text(text)
    with pytest.raises(ValueError):
        asyncio.run(CpuSwitch(tmp_path).count())
