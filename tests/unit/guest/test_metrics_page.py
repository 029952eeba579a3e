"""Reading /proc and writing node_exporter's names."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import pytest

from app.guest.main import listen_address
from app.guest.metrics_page import metrics_page
from app.guest.procfs import LoadAverage, read_load, read_memory, read_stat


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    (tmp_path / "loadavg").write_text("0.52 1.58 15.09 3/467 12345\n")
    (tmp_path / "meminfo").write_text(
        "MemTotal:       16384 kB\nMemFree:  100 kB\nMemAvailable:    8192 kB\nActive(anon):    5 kB\n"
        "HugePages_Total:       7\n"
    )
    (tmp_path / "stat").write_text(
        "cpu  300 0 0 0 0 0 0 0 0 0\ncpu0 100 1 2 3 4 5 6 7 8 9\ncpu2 200 1 2 3\nintr 1\nbtime 1700000000\n"
    )
    return tmp_path


def _samples(page: bytes) -> dict[str, str]:
    lines = [line for line in page.decode().splitlines() if not line.startswith("#")]
    return dict(line.rsplit(" ", 1) for line in lines)  # type: ignore[misc]


def test_the_page_has_load_memory_and_cpu_time(proc: Path) -> None:
    samples = _samples(metrics_page(proc))
    assert samples["node_load1"] == "0.52"
    assert samples["node_load5"] == "1.58"
    assert samples["node_load15"] == "15.09"
    assert samples["node_memory_MemTotal_bytes"] == str(16_384 * 1024)
    assert samples["node_memory_MemAvailable_bytes"] == str(8_192 * 1024)
    assert samples["node_memory_Active_anon_bytes"] == "5120"
    assert samples["node_memory_HugePages_Total"] == "7"
    assert samples["node_boot_time_seconds"] == "1700000000"
    tick = os.sysconf("SC_CLK_TCK")
    assert float(samples['node_cpu_seconds_total{cpu="2",mode="user"}']) == 200 / tick
    assert float(samples['node_cpu_seconds_total{cpu="0",mode="steal"}']) == 7 / tick


def test_only_online_cpus_are_listed(proc: Path) -> None:
    assert sorted(read_stat(proc).cpu_seconds) == [0, 2]


def test_the_runnable_threads_are_read_with_the_load(proc: Path) -> None:
    assert read_load(proc) == LoadAverage(0.52, 1.58, 15.09, 3)


def test_every_sample_follows_its_type_line(proc: Path) -> None:
    typed: set[str] = set()
    for line in metrics_page(proc).decode().splitlines():
        if line.startswith("# TYPE "):
            typed.add(line.split()[2])
        elif not line.startswith("#"):
            assert line.split("{")[0].split(" ")[0] in typed


@pytest.mark.parametrize(
    ("name", "text"),
    [("loadavg", "0.1 0.2"), ("loadavg", "a b c d"), ("meminfo", "MemTotal: 5 kB"), ("stat", "")],
)
def test_a_proc_that_makes_no_sense_is_an_error_not_a_zero(proc: Path, name: str, text: str) -> None:
    (proc / name).write_text(text)
    with pytest.raises(ValueError):
        metrics_page(proc)


def test_this_machine_has_available_memory_below_its_total() -> None:
    memory = read_memory()
    assert 0 < memory["MemAvailable"] <= memory["MemTotal"]


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:0", ("127.0.0.1", 0)),
        ("[::1]:9100", ("::1", 9100)),
        ("localhost:65535", ("localhost", 65535)),
    ],
)
def test_a_listen_address_is_host_and_port(text: str, address: tuple[str, int]) -> None:
    assert listen_address(text) == address


@pytest.mark.parametrize("text", ["9100", ":9100", "host:", "host:x", "host:65536", "host:-1", ""])
def test_what_is_no_listen_address_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        listen_address(text)
