"""What a fleet keeps over its restart: ports, sizes, tokens, bounds, who was deleted, and its age."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from app.core.resources import Resources, resources
from app.errors import ConfigurationError

FILE_NAME = "fleet.json"
_VERSION = 1


@dataclass(frozen=True, slots=True)
class SavedVm:
    """One VM.

    Attributes:
        port: where its server listened, 0 for none yet.
        use: the size last asked for.
        observed: the size that it had; differs from `use` when an apply was under way or failed.
        is_pending: `use` was accepted and was still to be applied.
        token: the highest one seen.
        operations: sizes asked for so far.
    """

    uid: str
    port: int
    use: Resources
    observed: Resources
    min: Resources
    max: Resources
    is_pending: bool = False
    token: int = 0
    operations: int = 0


@dataclass(frozen=True, slots=True)
class SavedFleet:
    """The whole file; `seed` says which plan it belongs to, `age_s` how long the fleet has lived."""

    seed: int
    age_s: float = 0.0
    vms: Mapping[str, SavedVm] = field(default_factory=dict)
    deleted: tuple[str, ...] = ()


def load_state(directory: Path, seed: int) -> SavedFleet:
    """What was saved for this seed; a new beginning where there is nothing, or another seed's.

    Raises:
        ConfigurationError: the file is there and is not one of ours.
    """
    path = directory / FILE_NAME
    try:
        raw = json.loads(path.read_bytes())
    except FileNotFoundError:
        return SavedFleet(seed)
    except (OSError, ValueError) as err:
        raise ConfigurationError([f"can't be read: {err}"], source=str(path)) from err
    try:
        if raw["version"] != _VERSION:
            raise ValueError(f"version {raw['version']} is not {_VERSION}")
        vms = {str(key): _vm_from(facts) for key, facts in raw["vms"].items()}
        saved = SavedFleet(int(raw["seed"]), float(raw["age_s"]), vms, tuple(map(str, raw["deleted"])))
    except (KeyError, TypeError, ValueError, AttributeError) as err:
        raise ConfigurationError([f"not the state of a fleet: {err!r}"], source=str(path)) from err
    return saved if saved.seed == seed else SavedFleet(seed)


def save_state(directory: Path, saved: SavedFleet) -> None:
    """Replace the file as a whole, mode 0600. Survives a kill of the process, not of the machine.

    Raises:
        OSError: the disk is full, or the directory is not ours.
    """
    facts = {
        "version": _VERSION,
        "seed": saved.seed,
        "age_s": round(saved.age_s, 3),
        "vms": {key: _vm_facts(vm) for key, vm in saved.vms.items()},
        "deleted": list(saved.deleted),
    }
    write_private(directory / FILE_NAME, json.dumps(facts, separators=(",", ":")).encode())


def write_private(path: Path, content: bytes) -> None:
    """Replace a file atomically by one of mode 0600.

    Raises:
        OSError: it can't be written; the old one is as it was.
    """
    new = path.with_name(path.name + ".new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    os.replace(new, path)


def size_facts(size: Resources) -> dict[str, int]:
    """A size as it stands in files and in the control interface."""
    return {"cpu_m": size.cpu, "mem": size.mem}


def _size_from(facts: Mapping[str, int]) -> Resources:
    return resources(int(facts["cpu_m"]), int(facts["mem"]))


def _vm_facts(vm: SavedVm) -> dict[str, object]:
    return {
        "uid": vm.uid,
        "port": vm.port,
        "use": size_facts(vm.use),
        "observed": size_facts(vm.observed),
        "min": size_facts(vm.min),
        "max": size_facts(vm.max),
        "pending": vm.is_pending,
        "token": vm.token,
        "operations": vm.operations,
    }


def _vm_from(facts: Mapping[str, object]) -> SavedVm:
    sizes = {name: _size_from(facts[name]) for name in ("use", "observed", "min", "max")}  # type: ignore[arg-type]
    numbers = [int(facts[name]) for name in ("port", "token", "operations")]  # type: ignore[call-overload]
    return SavedVm(
        uid=str(facts["uid"]),
        port=numbers[0],
        is_pending=bool(facts["pending"]),
        token=numbers[1],
        operations=numbers[2],
        **sizes,
    )
