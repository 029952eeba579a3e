"""What an operator types of a peer: addresses, sizes, time limits."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest

from app.cli.amounts import CpuType, MemoryType, SecondsType, UrlType
from app.cli.scheduler_request import PodType

MONITOR = UrlType("ws", 10301, "/monitor")
SCHEDULER = UrlType("http", 10299)


@pytest.mark.parametrize(
    ("kind", "text", "meant"),
    [
        (MONITOR, "ws://10.0.0.7:5/monitor", "ws://10.0.0.7:5/monitor"),
        (MONITOR, "ws://10.0.0.7:5/", "ws://10.0.0.7:5/monitor"),
        (MONITOR, "wss://vm-1", "wss://vm-1:10301/monitor"),
        (SCHEDULER, "https://vm-1:5", "https://vm-1:5"),
        (MONITOR, "vm-1", "ws://vm-1:10301/monitor"),
        (MONITOR, "[fd00::7]:5", "ws://[fd00::7]:5/monitor"),
        (SCHEDULER, "http://127.0.0.1", "http://127.0.0.1:10299"),
        (SCHEDULER, "127.0.0.1:8/permits/", "http://127.0.0.1:8/permits"),
    ],
)
def test_an_address_is_completed_from_what_the_protocol_says(kind: UrlType, text: str, meant: str) -> None:
    assert str(kind.convert(text, None, None)) == meant


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ws://",
        "http://h:1",
        "https://h:1",
        "ws://h:0",
        "ws://h:65536",
        "ws://h:x",
        "ws://h:1/other",
        "ws://[h:1",
        "ws://h\x1b:1",
        "ws://h:1/monitor?token=s3cret",
        "ws://operator:s3cret@h:1",
    ],
)
def test_an_address_that_cannot_be_is_refused_without_repeating_a_secret(text: str) -> None:
    with pytest.raises(click.BadParameter) as refused:
        MONITOR.convert(text, None, None)
    assert "s3cret" not in refused.value.message


def test_sizes_are_read_as_kubernetes_spells_them() -> None:
    assert [CpuType().convert(text, None, None) for text in ("2", "1.5", "250m")] == [2000, 1500, 250]
    assert [MemoryType().convert(text, None, None) for text in ("4Gi", "100")] == [4 << 30, 100]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (CpuType(), "0"),
        (CpuType(), "-1"),
        (CpuType(), "many"),
        (CpuType(), "3000000"),
        (MemoryType(), "0"),
        (MemoryType(), "4GB"),
        (MemoryType(), "8Pi"),
        (SecondsType(), "0"),
        (SecondsType(), "nan"),
        (SecondsType(), "2h"),
        (SecondsType(), "soon"),
        (PodType(), "a"),
        (PodType(), "a/"),
        (PodType(), "a/b/c"),
    ],
)
def test_what_makes_no_size_no_time_and_no_name_is_refused(kind: click.ParamType[object], text: str) -> None:
    with pytest.raises(click.BadParameter):
        kind.convert(text, None, None)


def test_times_are_seconds_or_durations() -> None:
    assert [SecondsType().convert(text, None, None) for text in ("2.5", "3", "1m30s")] == [2.5, 3.0, 90.0]


def test_the_scheduler_command_loads_no_client_before_the_process_is_made_cooperative() -> None:
    script = (
        "import sys, app.cli.scheduler, app.cli.informant; "
        "print([name for name in ('requests', 'urllib3', 'redis') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "[]\n"
