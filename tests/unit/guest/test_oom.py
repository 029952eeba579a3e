"""Kills for want of memory: counted by the kernel, dated by the daemon."""

from __future__ import annotations

from pathlib import Path

from app.guest.metrics_page import metrics_page
from app.guest.oom import OomWatch
from app.guest.procfs import read_oom_kills


def test_a_kill_is_dated_from_the_page_that_first_shows_it(tmp_path: Path) -> None:
    vmstat = tmp_path / "vmstat"
    vmstat.write_text("nr_free_pages 5\noom_kill 3\n")
    watch = OomWatch(tmp_path)
    assert watch.age_s() is None
    vmstat.write_text("nr_free_pages 5\noom_kill 4\n")
    for _ in range(2):
        age_s = watch.age_s()
        assert age_s is not None
        assert 0 <= age_s < 60


def test_a_kernel_that_counts_none_is_no_error(tmp_path: Path) -> None:
    assert read_oom_kills(tmp_path) is None
    (tmp_path / "vmstat").write_text("nr_free_pages 5\noom_kill x\n")
    assert read_oom_kills(tmp_path) is None
    assert OomWatch(tmp_path).age_s() is None


def test_the_page_has_node_exporter_s_name_for_the_count() -> None:
    kills = read_oom_kills()
    assert kills is not None
    assert f"\nnode_vmstat_oom_kill {kills}\n".encode() in metrics_page()
