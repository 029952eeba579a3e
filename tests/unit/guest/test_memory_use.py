"""Which memory counts: of a cgroup v2, of one of v1, of the whole guest."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.guest.memory_use import memory_reader

V2 = """anon 900
file 5000
kernel_stack 10
pagetables 20
shmem 300
inactive_anon 400
active_anon 800
inactive_file 4000
active_file 700
unevictable 30
slab_reclaimable 70
slab_unreclaimable 40
"""
V1 = """cache 5000
rss 900
inactive_anon 1
active_anon 2
total_inactive_anon 400
total_active_anon 800
total_inactive_file 4000
total_unevictable 30
"""


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True)
    path.write_text(text)


@pytest.mark.parametrize("mount", ["", "unified"])
def test_of_a_v2_cgroup_what_can_not_be_reclaimed_counts(tmp_path: Path, mount: str) -> None:
    write(tmp_path / mount / "db/main/memory.stat", V2)
    for name in ("db/main", "/db/main/"):
        assert memory_reader(name, cgroups=tmp_path)() == 400 + 800 + 30 + 40 + 10 + 20


def test_a_v2_cgroup_of_an_older_kernel_has_fewer_lines(tmp_path: Path) -> None:
    write(tmp_path / "db/memory.stat", "inactive_anon 5\nactive_anon 6\n")
    assert memory_reader("db", cgroups=tmp_path)() == 11


def test_of_a_v1_cgroup_its_children_count_too(tmp_path: Path) -> None:
    write(tmp_path / "memory/db/memory.stat", V1)
    assert memory_reader("db", cgroups=tmp_path)() == 400 + 800 + 30


def test_a_cgroup_that_is_not_there_is_an_error_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="'db'"):
        memory_reader("db", cgroups=tmp_path)


def test_a_cgroup_that_goes_away_is_an_error_of_that_sample(tmp_path: Path) -> None:
    write(tmp_path / "db/memory.stat", V2)
    read = memory_reader("db", cgroups=tmp_path)
    (tmp_path / "db/memory.stat").unlink()
    with pytest.raises(OSError):
        read()


@pytest.mark.parametrize("text", ["", "active_anon 5\n", "active_anon five\ninactive_anon 6\n"])
def test_a_file_that_is_no_memory_stat_is_an_error_of_that_sample(tmp_path: Path, text: str) -> None:
    write(tmp_path / "db/memory.stat", text)
    with pytest.raises(ValueError):
        memory_reader("db", cgroups=tmp_path)()


def test_without_a_cgroup_the_whole_guest_counts(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text("MemTotal: 8000 kB\nMemFree: 10 kB\nMemAvailable: 3000 kB\n")
    assert memory_reader(None, proc=tmp_path)() == 5000 * 1024
