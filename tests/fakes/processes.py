"""Children that exist on paper only."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from app.ports.processes import ProcessSpec


def spec(name: str, *, stop_wave: int = 0) -> ProcessSpec:
    """A child that nothing is known of but its name."""
    return ProcessSpec(name, (name,), {}, Path("/"), Path(f"/log/{name}"), stop_wave)


@dataclass
class FakeChild:
    """Ends when told; `obeys` says whether a polite request is enough."""

    name: str
    pid: int
    journal: list[str]
    obeys: bool = True
    end: str | None = None

    def poll(self) -> str | None:
        return self.end

    def terminate(self) -> None:
        self.journal.append(f"terminate {self.name}")
        if self.obeys:
            self.end = "exit status 0"

    def kill(self) -> None:
        self.journal.append(f"kill {self.name}")
        self.end = "killed by SIGKILL"


@dataclass
class FakeLauncher:
    """Gives out fake children, newest last; names in `missing` can't be started."""

    journal: list[str] = field(default_factory=list)
    children: list[FakeChild] = field(default_factory=list)
    missing: set[str] = field(default_factory=set)

    def start(self, spec: ProcessSpec) -> FakeChild:
        if spec.name in self.missing:
            raise FileNotFoundError(2, "No such file or directory")
        self.journal.append(f"start {spec.name}")
        child = FakeChild(spec.name, 1000 + len(self.children), self.journal)
        self.children.append(child)
        return child

    def latest(self, name: str) -> FakeChild:
        return next(child for child in reversed(self.children) if child.name == name)
