"""The inventory file of the platform `qemu`: a YAML list of VMs, each entry judged by itself.

A wrong entry is told with its line and path, and keeps none of the others from being used. Names, sockets and
guests must not be there twice: two owners of one QEMU would undo each other's work.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, ValidationError, model_validator

from app.config.agent_sections import TargetSettings
from app.config.document import MAX_DEPTH, MAX_VALUES, read_text
from app.config.fields import Section, Text, setting, wrong
from app.config.problems import Location, dotted, tell_all
from app.config.quantities import Cpu, Size
from app.config.yaml_document import parse_yaml, yaml_lines
from app.errors import ConfigurationError
from app.protocols.printable import printable

DEFAULT_NAMESPACE = "local"
DEFAULT_SLOT_BYTES = 128 * 1024 * 1024
"""The least that Linux can take away as a whole block on x86."""
MAX_VMS = 1_000

_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?")
_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.%a-z]+\]|[A-Za-z0-9_.-]{1,253}):([0-9]{1,5})")
_DEVICE = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,63}")


def _check_name(value: str) -> str:
    if not _NAME.fullmatch(value):
        raise wrong(
            "must be 1 to 63 small letters, digits, dots and dashes, with a letter or digit at both ends"
        )
    return value


def _check_address(value: str) -> str:
    found = _ADDRESS.fullmatch(value)
    if found is None or not 0 < int(found[2]) <= 65_535:
        raise wrong("must be HOST:PORT")
    return value


def _check_qmp(value: str) -> str:
    return value if value.startswith("/") else _check_address_or_path(value)


def _check_address_or_path(value: str) -> str:
    if _ADDRESS.fullmatch(value) is None:
        raise wrong("must be the absolute path of a unix socket, or HOST:PORT")
    return _check_address(value)


def _check_path(value: str) -> str:
    if not value.startswith("/"):
        raise wrong("must be an absolute path")
    return value


def _check_device(value: str) -> str:
    if not _DEVICE.fullmatch(value):
        raise wrong("must be the id of a device: a letter, then letters, digits, dots, dashes, underscores")
    return value


Name = Annotated[str, AfterValidator(_check_name)]
HostPort = Annotated[str, AfterValidator(_check_address)]
AbsolutePath = Annotated[Text, AfterValidator(_check_path)]


class SizeSettings(Section):
    """A bound of a VM's size."""

    milli_cpu: Cpu = setting(..., "CPUs, a quantity", alias="cpu")
    size_bytes: Size = setting(..., "memory, a quantity of bytes", alias="memory")


class VmEntry(Section):
    """One VM of the inventory; also what is kept about a VM that we have started ourselves."""

    name: Name = setting(..., "the VM's name")
    namespace: Name = setting(DEFAULT_NAMESPACE, "what its key begins with")
    uid: Text | None = setting(None, "tells two VMs apart that had one name; else name and socket do")
    node: Text | None = setting(None, "where it runs; none: this host")
    labels: Annotated[Mapping[Text, str], Field(max_length=64)] = setting({}, "labels")
    min: SizeSettings = setting(..., "the least that it may have")
    max: SizeSettings = setting(..., "the most that it may have")
    slot_bytes: Size = setting(DEFAULT_SLOT_BYTES, "the step of its memory", alias="slot")
    qmp: Annotated[Text, AfterValidator(_check_qmp)] = setting(..., "its QMP socket: a path, or host:port")
    guest: HostPort | None = setting(None, "its guest daemon")
    token_file: AbsolutePath | None = setting(None, "file with the token of its guest daemon")
    metrics: HostPort | None = setting(None, "its metrics page; none: the guest daemon's")
    monitor: HostPort | Literal["none"] | None = setting(None, "its vm-monitor; none: the guest daemon's")
    informant: HostPort | Literal["none"] | None = setting(None, "its informant; none: the guest daemon's")
    cpu_driver: Literal["guest", "qmp"] = setting("guest", "who sets CPUs online: the guest daemon, or QMP")
    memory_driver: Literal["virtio-mem", "dimm", "balloon"] = setting("virtio-mem", "how memory is changed")
    memory_device: Annotated[str, AfterValidator(_check_device)] = setting(
        "vm0", "id of the virtio-mem device"
    )
    cgroup: AbsolutePath | None = setting(None, "cgroup v2 directory of its QEMU alone, for parts of a CPU")
    billing_id: Text | None = setting(None, "billing identity")
    scaling: TargetSettings | None = setting(None, "its own targets")
    mode: Literal["scale", "observe"] = setting("scale", "scale, or only observe")

    @model_validator(mode="after")
    def _check(self) -> VmEntry:
        if self.min.milli_cpu > self.max.milli_cpu or self.min.size_bytes > self.max.size_bytes:
            raise wrong("min must not be above max")
        if self.min.size_bytes % self.slot_bytes or self.max.size_bytes % self.slot_bytes:
            raise wrong("min.memory and max.memory must be multiples of slot")
        if self.cpu_driver == "guest" and self.guest is None:
            raise wrong("guest is missing: cpuDriver guest needs the guest daemon's address")
        if self.monitor is None and self.guest is None:
            raise wrong('monitor is missing: host:port, or "none" for a VM that may be scaled without one')
        return self

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class InventoryProblem:
    """What is wrong in a file: of which VM (its key, if it has one), and a line that says where and what."""

    subject: str
    text: str


@dataclass(frozen=True, slots=True)
class InventoryFile:
    """A file's entries that are right, and what is wrong with the others.

    Attributes:
        is_readable: False: nothing can be said of any VM, as the file is gone or is no YAML.
    """

    entries: tuple[VmEntry, ...]
    problems: tuple[InventoryProblem, ...]
    is_readable: bool = True


def read_inventory(path: Path) -> InventoryFile:
    """Read the file; what is wrong in it is told, not raised."""
    shown = printable(str(path))
    try:
        text = read_text(str(path))
        document = parse_yaml(text, max_depth=MAX_DEPTH, max_values=MAX_VALUES)
        lines = yaml_lines(text, max_depth=MAX_DEPTH, max_values=MAX_VALUES)
    except ConfigurationError as err:
        return InventoryFile((), (InventoryProblem(shown, str(err)),), is_readable=False)
    except (ValueError, RecursionError) as err:
        problem = str(err) if isinstance(err, ValueError) else "nested too deep"
        return InventoryFile((), (InventoryProblem(shown, f"{shown}: {problem}"),), is_readable=False)
    vms = document.get("vms") if isinstance(document, dict) else None
    if not isinstance(document, dict) or not isinstance(vms, list) or len(document) > 1:
        problem = f"{shown}:1: .: must be an object with one list, vms"
        return InventoryFile((), (InventoryProblem(shown, problem),), is_readable=False)
    if len(vms) > MAX_VMS:
        problem = f"{shown}:1: .vms: must have at most {MAX_VMS} entries"
        return InventoryFile((), (InventoryProblem(shown, problem),), is_readable=False)
    return _judge(vms, lines, shown)


def _judge(vms: list[object], lines: Mapping[Location, int], shown: str) -> InventoryFile:
    entries: dict[str, VmEntry] = {}
    problems: list[InventoryProblem] = []
    taken: dict[str, str] = {}
    for at, raw in enumerate(vms):
        where: Location = ("vms", at)
        try:
            entry = VmEntry.model_validate(raw)
        except ValidationError as err:
            problems += _told(err, raw, where, lines, shown)
            continue
        line = lines.get(where, 1)
        if entry.key in entries:
            text = f"{shown}:{line}: {dotted(where)}.name: {entry.key} is there twice; the first one counts"
            problems.append(InventoryProblem(f"{shown}:{line}", text))
            continue
        doubled = next((place for place in _places(entry) if place in taken), None)
        if doubled is not None:
            text = f"{shown}:{line}: {dotted(where)}: {doubled} belongs to {taken[doubled]} already"
            problems.append(InventoryProblem(entry.key, text))
            continue
        taken.update(dict.fromkeys(_places(entry), entry.key))
        entries[entry.key] = entry
    return InventoryFile(tuple(entries.values()), tuple(problems))


def _places(entry: VmEntry) -> Iterator[str]:
    """What only one VM may have."""
    yield f"qmp {entry.qmp}"
    if entry.guest is not None:
        yield f"guest {entry.guest}"
    if entry.cgroup is not None:
        yield f"cgroup {entry.cgroup}"


def _told(
    err: ValidationError, raw: object, where: Location, lines: Mapping[Location, int], shown: str
) -> Iterator[InventoryProblem]:
    """One problem for each thing that is wrong with an entry, at the line where it is."""
    subject = _key_of(raw) or f"{shown}:{lines.get(where, 1)}"
    for error in err.errors(include_url=False):
        place = (*where, *error["loc"])
        known = next(lines[place[:size]] for size in range(len(place), -1, -1) if place[:size] in lines)
        path, _, problem = tell_all([error], VmEntry)[0].partition(": ")
        full = dotted(where) + ("" if path == "." else path)
        yield InventoryProblem(subject, f"{shown}:{known}: {full}: {problem}")


def _key_of(raw: object) -> str | None:
    """The VM that a wrong entry is about, if that much can be read."""
    if not isinstance(raw, dict):
        return None
    name, namespace = raw.get("name"), raw.get("namespace", DEFAULT_NAMESPACE)
    if not isinstance(name, str) or not isinstance(namespace, str):
        return None
    return f"{namespace}/{name}" if _NAME.fullmatch(name) and _NAME.fullmatch(namespace) else None
