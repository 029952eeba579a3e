"""The model of a VM behind a fake QEMU: what its commands and its guest's daemon change."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

MIB = 1024 * 1024


class Refused(Exception):
    """What QEMU answers with an error."""

    def __init__(self, text: str, kind: str = "GenericError") -> None:
        super().__init__(text)
        self.kind = kind


class FakeMachine:
    """The model behind both doors.

    Attributes:
        is_applying: whether the guest follows what is asked of it.
        is_refusing: whether all changes are refused.
        is_silent: the guest's daemon takes connections and never answers.
        resists_below: memory in bytes below which the guest gives nothing back.
        token: what the guest's daemon asks for.
        used: bytes that the guest has in use.
        oom_kills: what its kernel has killed for want of memory.
        oom_age_s: seconds since the last of them, as our daemon tells it; None: it tells none.
        load: what its daemon's `/load` was told last; None: nothing runs.
        watchers: called after each command, with its name and arguments.
    """

    def __init__(self, *, cpus: int = 4, base: int = 1024 * MIB, most: int = 8192 * MIB) -> None:
        self.lock = threading.RLock()
        self.threads, self.online, self.places = cpus, 1, cpus
        self.base, self.most = base, most
        self.size = self.requested = 0
        self.used = 100 * MIB
        self.kernel = 40 * MIB
        self.resists_below = 0
        self.oom_kills = 0
        self.oom_age_s: float | None = None
        self.status, self.migration = "running", ""
        self.is_applying = True
        self.is_kvm = self.is_refusing = False
        self.is_silent = False
        self.objects: dict[str, dict[str, Any]] = {}
        self.dimms: dict[str, int] = {}
        self.balloon: int | None = None
        self.token = "s3cret"
        self.commands: list[str] = []
        self.load: dict[str, Any] | None = None
        self.load_ended: str | None = None
        self.watchers: list[Callable[[str, dict[str, Any]], None]] = []
        self.put_delay = threading.Event()
        self.put_delay.set()

    @property
    def total(self) -> int:
        """All memory that the guest has."""
        return self.balloon or self.base + self.size + sum(self.dimms.values())

    def settle(self) -> None:
        """Let the guest follow what was asked."""
        with self.lock:
            if self.requested >= self.size:
                self.size = self.requested
            else:
                self.size = min(self.size, max(self.requested, self.resists_below - self.base))

    def reboot(self) -> None:
        """The guest starts anew in the same QEMU: one CPU, memory plugged again, nothing killed yet."""
        with self.lock:
            self.online = 1
            self.oom_kills, self.oom_age_s = 0, None

    def set_online(self, wanted: int) -> None:
        """What the daemon's `/cpus` does."""
        with self.lock:
            if self.is_refusing:
                raise ValueError("the kernel refused: Device or resource busy")
            if not 1 <= wanted <= self.threads:
                raise ValueError(f"online must be 1 to {self.threads}")
            if self.is_applying:
                self.online = wanted

    def execute(self, name: str, given: dict[str, Any]) -> Any:
        """One QMP command."""
        with self.lock:
            self.commands.append(name)
            method: Callable[[dict[str, Any]], Any] | None = getattr(
                self, "do_" + name.replace("-", "_"), None
            )
            if method is None:
                raise Refused(f"The command {name} has not been found", "CommandNotFound")
            answer = method(given)
            for watcher in self.watchers:
                watcher(name, given)
            return answer

    def do_query_status(self, _: dict[str, Any]) -> Any:
        return {"status": self.status, "singlestep": False, "running": self.status == "running"}

    def do_query_migrate(self, _: dict[str, Any]) -> Any:
        return {"status": self.migration} if self.migration else {}

    def do_quit(self, _: dict[str, Any]) -> Any:
        return {}

    def do_query_kvm(self, _: dict[str, Any]) -> Any:
        return {"enabled": self.is_kvm, "present": self.is_kvm}

    def do_query_cpus_fast(self, _: dict[str, Any]) -> Any:
        return [
            {"cpu-index": n, "thread-id": 100 + n, "qom-path": f"/machine/peripheral/vmscaler-cpu{n}-0-0-0"}
            for n in range(self.threads)
        ]

    def do_query_hotpluggable_cpus(self, _: dict[str, Any]) -> Any:
        places = [
            {
                "props": {"core-id": n, "thread-id": 0, "node-id": 0, "socket-id": 0},
                "vcpus-count": 1,
                "type": "cpu",
            }
            for n in range(self.places)
        ]
        for place in places[: self.threads]:
            place["qom-path"] = "/machine/unattached/device[0]"
        return places[::-1]

    def do_query_memory_size_summary(self, _: dict[str, Any]) -> Any:
        return {"base-memory": self.base, "plugged-memory": self.size + sum(self.dimms.values())}

    def do_query_memory_devices(self, _: dict[str, Any]) -> Any:
        data = {
            "id": "vm0",
            "size": self.size,
            "requested-size": self.requested,
            "block-size": 2 * MIB,
            "max-size": self.most - self.base,
            "memdev": "/objects/vmem0",
            "node": 0,
        }
        dimms = [{"type": "dimm", "data": {"id": name, "size": size}} for name, size in self.dimms.items()]
        return [{"type": "virtio-mem", "data": data}, *dimms]

    def do_query_balloon(self, _: dict[str, Any]) -> Any:
        if self.balloon is None:
            raise Refused("No balloon device has been activated", "DeviceNotActive")
        return {"actual": self.balloon}

    def do_balloon(self, given: dict[str, Any]) -> Any:
        self.do_query_balloon({})
        self.balloon = given["value"]
        return {}

    def do_qom_get(self, given: dict[str, Any]) -> Any:
        name = str(given["path"]).rpartition("/")[2]
        if name not in self.objects:
            raise Refused(f"Device '{given['path']}' not found", "DeviceNotFound")
        return self.objects[name][given["property"]]

    def do_qom_set(self, given: dict[str, Any]) -> Any:
        name, value = str(given["path"]).rpartition("/")[2], given["value"]
        if name == "vm0" and given["property"] == "requested-size":
            if self.is_refusing or not 0 <= value <= self.most - self.base:
                raise Refused("'requested-size' cannot exceed the memory backend size")
            self.requested = value
            if self.is_applying:
                self.settle()
            return {}
        if name not in self.objects:
            raise Refused(f"Device '{given['path']}' not found", "DeviceNotFound")
        self.objects[name][given["property"]] = value
        return {}

    def do_object_add(self, given: dict[str, Any]) -> Any:
        if given["id"] in self.objects:
            raise Refused(f"attempt to add duplicate property '{given['id']}' to object (type 'container')")
        self.objects[given["id"]] = dict(given)
        return {}

    def do_device_add(self, given: dict[str, Any]) -> Any:
        if given["driver"] == "pc-dimm":
            self.dimms[given["id"]] = int(self.objects[given["memdev"]]["size"])
        elif self.threads >= self.places:
            raise Refused("no place for a CPU")
        else:
            self.threads += 1
        return {}

    def do_device_del(self, given: dict[str, Any]) -> Any:
        if given["id"] in self.dimms:
            if self.is_applying:
                del self.dimms[given["id"]]
        elif not self.is_kvm:
            raise AssertionError("device_del of a CPU under TCG crashes QEMU")
        else:
            self.threads -= 1
        return {}
