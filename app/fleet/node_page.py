"""A metrics page as node_exporter writes it, about 60 KB, with the numbers of one simulated VM in it.

The page is cut once where numbers go; a VM's page is then one join. Like a real page it holds names that
must not be confused with the wanted ones (`node_load15`, names in comments and labels).
"""

from __future__ import annotations

from collections.abc import Iterator

from app.fleet.page_families import DEVICES, FILESYSTEMS, GO, NETSTAT, UNITS, VMSTAT
from app.simulation.noise import noise
from app.simulation.vm_model import VmModel

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
PAGE_KINDS = ("nan", "negative", "missing", "cut", "empty", "impossible")
"""Kinds of rubbish that `broken_page` makes."""
_CUT = "\x00"


class NodePage:
    """The template of all VMs' pages; immutable after it was made."""

    def __init__(self) -> None:
        """Build the template; about a millisecond, once per fleet."""
        pieces = "\n".join(_lines()).split(_CUT)
        self._fixed = [piece.encode() for piece in pieces[::2]]
        self._names = pieces[1::2]

    def render(self, model: VmModel) -> bytes:
        """The page of a VM as it is at the model's age."""
        values = _values(model)
        out = [self._fixed[0]]
        for name, fixed in zip(self._names, self._fixed[1:], strict=True):
            out.append(values[name])
            out.append(fixed)
        return b"".join(out)


def broken_page(page: bytes, kind: str) -> bytes:
    """The page made rubbish in the way of `kind`, one of `PAGE_KINDS`."""
    lines = page.split(b"\n")
    match kind:
        case "nan":
            return b"\n".join(_set(lines, b"node_load1 ", b"NaN"))
        case "negative":
            return b"\n".join(_set(lines, b"node_memory_MemAvailable_bytes ", b"-1"))
        case "missing":
            return b"\n".join(line for line in lines if not line.startswith(b"node_load"))
        case "impossible":
            return b"\n".join(_set(lines, b"node_memory_MemAvailable_bytes ", b"9e+18"))
        case "cut":
            return page[: page.index(b"\nnode_load1 ") + len(b"\nnode_lo")]
        case _:
            return b""


def broken_kind(seed: int, vm: str, age_s: float) -> str:
    """Which kind of rubbish a VM's page is now; another one each ten seconds."""
    return PAGE_KINDS[int(noise(seed, vm, "rubbish", int(age_s // 10)) * len(PAGE_KINDS))]


def _set(lines: list[bytes], start: bytes, value: bytes) -> list[bytes]:
    return [start + value if line.startswith(start) else line for line in lines]


def _values(model: VmModel) -> dict[str, bytes]:
    load, total, available = model.load, model.total_bytes, model.available_bytes
    idle = max(0.0, model.age_s * model.granted.cpu / 1000 - load.busy)
    numbers: dict[str, float] = {
        "load1": round(load.load1, 2),
        "load5": round(load.load5, 2),
        "load15": round(load.load15, 2),
        "total": total,
        "available": available,
        "free": available * 6 // 10,
        "cached": available * 3 // 10,
        "active": model.used_bytes,
        "running": 1 + int(load.load1),
        "age": round(model.age_s, 2),
        "busy0": round(load.busy * 0.3, 2),
        "busy1": round(load.busy * 0.25, 2),
        "busy2": round(load.busy * 0.25, 2),
        "busy3": round(load.busy * 0.2, 2),
        "idle0": round(idle * 0.25, 2),
        "idle1": round(idle * 0.25, 2),
        "idle2": round(idle * 0.25, 2),
        "idle3": round(idle * 0.25, 2),
    }
    return {name: _number(value) for name, value in numbers.items()}


def _number(value: float) -> bytes:
    """As Go's exporter writes it: large numbers with an exponent."""
    return (f"{value:.9e}" if value >= 1e6 else f"{value:g}").encode()


def _slot(name: str) -> str:
    return f"{_CUT}{name}{_CUT}"


def _lines() -> Iterator[str]:
    """The page in node_exporter's order: families by name."""
    yield from _plain(GO, "gauge", "0.000123")
    yield from _cpu()
    yield from _by_label("node_disk", DEVICES, "device", ("vda", "vdb", "zram0"))
    for name in FILESYSTEMS:
        yield from _head(f"node_filesystem_{name}", "gauge")
        for mount in ("/", "/boot", "/run", "/tmp", "/var/lib/data", "/sys/kernel/node_load1"):  # noqa: S108
            yield f'node_filesystem_{name}{{device="/dev/vda1",fstype="ext4",mountpoint="{mount}"}} 1.05e+10'
    yield from _load()
    yield from _memory()
    yield from _plain(NETSTAT, "untyped", "482913")
    yield from _by_label(
        "node_network", ("receive_bytes_total", "transmit_bytes_total"), "device", ("eth0", "lo")
    )
    yield from _value("node_procs_running", "Number of processes in runnable state.", _slot("running"))
    yield from _units()
    yield from _value("node_time_seconds", "System time in seconds since epoch (1970).", "1.7e+09")
    yield from _plain(VMSTAT, "untyped", "1.048576e+06")
    yield from _value("process_cpu_seconds_total", "Total user and system CPU time.", _slot("age"))
    yield ""


def _cpu() -> Iterator[str]:
    yield from _head("node_cpu_seconds_total", "counter")
    for cpu in range(4):
        for mode in ("idle", "iowait", "irq", "nice", "softirq", "steal", "system", "user"):
            value = {"idle": _slot(f"idle{cpu}"), "user": _slot(f"busy{cpu}")}.get(mode, "0")
            yield f'node_cpu_seconds_total{{cpu="{cpu}",mode="{mode}"}} {value}'


def _load() -> Iterator[str]:
    yield from _value("node_load1", "1m load average.", _slot("load1"))
    yield from _value("node_load15", "15m load average.", _slot("load15"))
    yield from _value("node_load5", "5m load average.", _slot("load5"))


def _memory() -> Iterator[str]:
    slots = {"Active": "active", "Cached": "cached", "MemAvailable": "available", "MemFree": "free"}
    names = (
        "Active",
        "Buffers",
        "Cached",
        "Dirty",
        "MemAvailable",
        "MemFree",
        "MemTotal",
        "Slab",
        "SwapTotal",
    )
    for name in names:
        value = _slot(slots[name]) if name in slots else _slot("total") if name == "MemTotal" else "0"
        yield from _value(f"node_memory_{name}_bytes", f"Memory information field {name}_bytes.", value)


def _units() -> Iterator[str]:
    yield from _head("node_systemd_unit_state", "gauge")
    for unit in UNITS:
        for state in ("activating", "active", "deactivating", "failed", "inactive"):
            value = int(state == "active")
            yield f'node_systemd_unit_state{{name="{unit}.service",state="{state}",type="notify"}} {value}'


def _by_label(prefix: str, names: tuple[str, ...], label: str, values: tuple[str, ...]) -> Iterator[str]:
    for name in names:
        yield from _head(f"{prefix}_{name}", "counter")
        for value in values:
            yield f'{prefix}_{name}{{{label}="{value}"}} 1.234567e+06'


def _plain(names: tuple[str, ...], kind: str, value: str) -> Iterator[str]:
    for name in names:
        yield from _head(name, kind)
        yield f"{name} {value}"


def _head(name: str, kind: str) -> Iterator[str]:
    yield f"# HELP {name} Statistic {name} of the kernel, as it is."
    yield f"# TYPE {name} {kind}"


def _value(name: str, text: str, value: str) -> Iterator[str]:
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} gauge"
    yield f"{name} {value}"
