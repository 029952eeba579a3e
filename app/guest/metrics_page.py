"""The metrics page of this machine under node_exporter's names (`spec/agent.md`, "Metrics of a VM")."""

from __future__ import annotations

import re
from pathlib import Path

from app.guest.procfs import CPU_MODES, PROC, read_load, read_memory, read_oom_kills, read_stat

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""The Prometheus text format."""
_PARENTHESES = re.compile(r"\((.*)\)")


def metrics_page(root: Path = PROC) -> bytes:
    """Load, memory and CPU seconds as read now, in Prometheus text.

    Raises:
        OSError: something in /proc can't be read.
        ValueError: it is not what a Linux kernel writes.
    """
    load, memory, stat = read_load(root), read_memory(root), read_stat(root)
    lines: list[str] = []
    for minutes, value in (("1", load.load1), ("5", load.load5), ("15", load.load15)):
        lines += _gauge(f"node_load{minutes}", f"{minutes}m load average.", value)
    lines += _gauge("node_procs_running", "Number of processes in runnable state.", load.runnable)
    lines += _gauge("node_boot_time_seconds", "Node boot time, in unixtime.", stat.boot_time)
    for name, size in memory.items():
        lines += _memory_lines(name, size)
    if (kills := read_oom_kills(root)) is not None:
        name = "node_vmstat_oom_kill"
        lines += [f"# HELP {name} /proc/vmstat information field oom_kill.", f"# TYPE {name} untyped"]
        lines.append(f"{name} {kills}")
    lines.append("# HELP node_cpu_seconds_total Seconds the CPUs spent in each mode.")
    lines.append("# TYPE node_cpu_seconds_total counter")
    for number, seconds in stat.cpu_seconds.items():
        for mode, value in zip(CPU_MODES, seconds, strict=True):
            lines.append(f'node_cpu_seconds_total{{cpu="{number}",mode="{mode}"}} {value:g}')
    return ("\n".join(lines) + "\n").encode("ascii", "replace")


def _gauge(name: str, text: str, value: float) -> list[str]:
    return [f"# HELP {name} {text}", f"# TYPE {name} gauge", f"{name} {_number(value)}"]


def _memory_lines(name: str, size: int) -> list[str]:
    """node_exporter's spelling: `Active(anon)` is `node_memory_Active_anon_bytes`."""
    is_count = name.startswith("HugePages_")
    plain = _PARENTHESES.sub(r"_\1", name)
    full = f"node_memory_{plain}" if is_count else f"node_memory_{plain}_bytes"
    return _gauge(full, f"Memory information field {plain}.", size)


def _number(value: float) -> str:
    return repr(value) if isinstance(value, float) else str(value)
