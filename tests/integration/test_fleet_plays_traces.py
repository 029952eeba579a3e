"""The simulated fleet as a process that plays recorded loads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import requests

from tests.fleet_process import FleetProcess, until


def _trace(directory: Path, *values: float) -> Path:
    path = directory / "load.csv"
    lines = [f"{number * 300},{value}" for number, value in enumerate(values)]
    path.write_text("\n".join(["timestamp,value", *lines]))
    return path


def test_the_chosen_vms_play_the_trace_and_the_load_on_their_pages_follows(tmp_path: Path) -> None:
    trace = _trace(tmp_path, 150)
    fleet = FleetProcess("--trace", str(trace), "--trace-cpus", "2", "--trace-vms", "0.5")
    try:
        vms = fleet.vms()
        playing = [key for key, vm in vms.items() if vm["profile"] == "trace"]
        assert len(playing) == 3
        assert all(fleet.vm(key)["physics"]["cpu_demand"] == 3.0 for key in playing)
        address = vms[playing[0]]["metrics"]
        page = requests.get(f"http://{address['host']}:{address['port']}/metrics", timeout=60).text
        load = [line for line in page.splitlines() if line.startswith("node_load1 ")]
        assert float(load[0].split()[1]) > 0.5
        fleet.api("POST", f"/v1/vms/{playing[0]}/load", json={"cpu": 0.5, "mem_bytes": 1e7})
        assert fleet.vm(playing[0])["physics"]["cpu_demand"] == 0.5
        fleet.api("POST", f"/v1/vms/{playing[0]}/load", json={"reset": True})
        assert fleet.vm(playing[0])["physics"]["cpu_demand"] == 3.0
    finally:
        fleet.stop()


def test_a_fast_trace_moves_and_begins_again(tmp_path: Path) -> None:
    trace = _trace(tmp_path, 10, 90)
    fleet = FleetProcess("--trace", str(trace), "--trace-speed", "300", vms=1)
    try:
        key = next(iter(fleet.vms()))
        for wanted in (0.4, 3.6, 0.4):
            until(
                lambda wanted=wanted: fleet.vm(key)["physics"]["cpu_demand"] == pytest.approx(wanted),  # type: ignore[misc]
                f"a demand of {wanted}",
            )
    finally:
        fleet.stop()


@pytest.mark.parametrize(
    ("content", "options", "words"),
    [
        ("0,1\n300,-2\n", (), "load.csv:2: the value is negative"),
        ("0,1\n", ("--trace-vms", "web-999"), "no such VM: 'web-999'"),
        ("0,1\n", ("--trace-cpus", "many"), "--trace-cpus: 'many' must be a quantity"),
        ("0,1\n", ("--trace-speed", "0"), "--trace-speed"),
        (None, (), "load.csv: can't be read: No such file or directory"),
    ],
)
def test_what_can_not_be_played_is_one_line_and_status_2(
    tmp_path: Path, content: str | None, options: tuple[str, ...], words: str
) -> None:
    path = tmp_path / "load.csv"
    if content is not None:
        path.write_text(content)
    command = [sys.executable, "-m", "app.main", "sim", "--control", "127.0.0.1:0", "--trace", str(path)]
    done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_speed_without_a_trace_is_refused() -> None:
    command = [sys.executable, "-m", "app.main", "sim", "--control", "127.0.0.1:0", "--trace-speed", "2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, "need a --trace" in done.stderr) == (2, True)
