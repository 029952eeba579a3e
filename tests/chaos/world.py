"""The processes of a run: started, kept alive as a supervisor would, hurt as the schedule says."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from math import inf
from pathlib import Path

from app.adapters.embedded_redis import is_answering
from app.adapters.processes import GuardedLauncher, GuardedProcess
from app.ports.processes import ProcessSpec
from tests.chaos.evidence import FaultDone, Life
from tests.chaos.notebook import Notebook
from tests.chaos.schedule import Fault, Kind
from tests.chaos.setup import Place, beat_spec, fleet_spec, redis_spec, scheduler_spec, worker_spec
from tests.chaos.spans import Span
from tests.tcp_proxy import TcpProxy

RESTART_AFTER_S = 1.0
"""A supervisor's pause before a worker that has ended is started again."""

TERM_GRACE_S = 30.0
"""Then a worker that was asked to end is killed, as supervisors do."""

READY_WITHIN_S = 60.0


class Child:
    """A process that is started again whenever it ends."""

    def __init__(
        self,
        launcher: GuardedLauncher,
        spec: ProcessSpec,
        notebook: Notebook,
        restart_after_s: float = RESTART_AFTER_S,
    ) -> None:
        self._restart_after_s = restart_after_s
        self.name = spec.name
        self._launcher = launcher
        self._spec = spec
        self._notebook = notebook
        self._process: GuardedProcess | None = None
        self._began = 0.0
        self._start_at = 0.0
        self._term_until = inf
        self._ending = ""
        self._was_deaf = False
        self.is_kept = True
        self.restarts = 0
        self.crashes: list[str] = []

    @property
    def pid(self) -> int | None:
        """Of the process that runs now."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        self._process = self._launcher.start(self._spec)
        self._began, self._ending, self._term_until = time.monotonic(), "", inf

    def tick(self) -> None:
        """Note an end, start again what is down, kill what does not end; called often."""
        now = time.monotonic()
        if self._process is None:
            if self.is_kept and self._began and now >= self._start_at:
                self.restarts += 1
                self.start()
            return
        end = self._process.poll()
        if end is not None:
            self._note_end(end)
        elif now > self._term_until:
            self.crashes.append(f"did not end within {TERM_GRACE_S:g} s of SIGTERM")
            self.kill()

    def kill(self) -> None:
        if self._process is not None:
            self._ending = "killed"
            os.kill(self._process.pid, signal.SIGKILL)
            self._await_end()

    def terminate(self) -> None:
        if self._process is not None:
            self._ending, self._term_until = "terminated", time.monotonic() + TERM_GRACE_S
            self._was_deaf = not _catches(self._process.pid, signal.SIGTERM)
            self._process.terminate()

    def signal(self, number: int) -> None:
        if self._process is not None and self._process.poll() is None:
            os.kill(self._process.pid, number)

    def life(self) -> Life | None:
        """The life of the process that runs now."""
        return None if self._process is None else Life(self.name, self._began, inf, "")

    def _await_end(self) -> None:
        deadline = time.monotonic() + 5
        while self._process is not None and time.monotonic() < deadline:
            end = self._process.poll()
            if end is not None:
                self._note_end(end)
                return
            time.sleep(0.005)

    def _note_end(self, end: str) -> None:
        ending = self._ending or "crashed"
        # One that has only just been started may be told to end before it can listen.
        is_told = ending == "killed" or (
            ending == "terminated" and (end == "exit status 0" or self._was_deaf)
        )
        if not is_told:
            self.crashes.append(end)
        now = time.monotonic()
        self._notebook.add(Life(self.name, self._began, now, ending))
        self._process, self._start_at = None, now + self._restart_after_s


def _catches(pid: int, number: signal.Signals) -> bool:
    """Whether a process handles a signal, as the kernel has it."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return True
    mask = int(status.partition("SigCgt:")[2].split()[0], 16)
    return bool(mask >> (number - 1) & 1)


class World:
    """All processes of a run."""

    def __init__(
        self,
        place: Place,
        launcher: GuardedLauncher,
        notebook: Notebook,
        proxies: dict[str, TcpProxy],
        say: Callable[[str], None],
    ) -> None:
        self._place = place
        self._notebook = notebook
        self._proxies = proxies
        self._say = say
        self.redis = Child(launcher, redis_spec(place), notebook, restart_after_s=0.0)
        self.others = [
            Child(launcher, spec(place), notebook) for spec in (fleet_spec, scheduler_spec, beat_spec)
        ]
        self.workers = {name: Child(launcher, worker_spec(place, name), notebook) for name in proxies}
        self._undo: list[tuple[float, Callable[[], None]]] = []
        self._redis_down: float | None = None
        self._all_down: float | None = None
        self._hurt: dict[str, float] = {}

    def start(self) -> None:
        """Start Redis and the fleet, which ask nobody.

        Raises:
            TimeoutError: Redis does not answer.
        """
        self.redis.start()
        deadline = time.monotonic() + READY_WITHIN_S
        while not is_answering(self._place.redis_socket):
            if time.monotonic() > deadline:
                raise TimeoutError("Redis does not answer")
            time.sleep(0.05)
        self.others[0].start()

    def start_rest(self) -> None:
        """Start all that changes something."""
        for child in (*self.others[1:], *self.workers.values()):
            child.start()

    def pids(self) -> dict[str, int]:
        """Of all that runs, by name."""
        children = (self.redis, *self.others, *self.workers.values())
        return {child.name: child.pid for child in children if child.pid is not None}

    def tick(self) -> None:
        """Keep all alive, undo what is over; called every few hundredths of a second."""
        now = time.monotonic()
        for entry in [entry for entry in self._undo if entry[0] <= now]:
            self._undo.remove(entry)
            entry[1]()
        for child in (self.redis, *self.others, *self.workers.values()):
            child.tick()
        self._watch_redis(now)
        self._watch_workers(now)

    def hurt(self, fault: Fault) -> None:
        """Carry a fault out; its end comes with a later tick."""
        begin = time.monotonic()
        name = f"worker{fault.worker}" if fault.worker else ""
        self._notebook.add(FaultDone(begin, begin + fault.for_s, fault.kind.value, name, _text(fault)))
        match fault.kind:
            case Kind.KILL:
                self.workers[name].kill()
            case Kind.TERM:
                self.workers[name].terminate()
            case Kind.STOP:
                self._stop(self.workers[name], begin + fault.for_s)
            case Kind.CUT:
                self._cut(self._proxies[name], fault, begin)
            case Kind.REDIS:
                self._end_redis(fault, begin)

    def stop_workers(self) -> list[str]:
        """End the workers, all at once; names of those that had to be killed."""
        for _, action in self._undo:
            action()
        self._undo.clear()
        return _end(list(self.workers.values()))

    def stop(self) -> list[str]:
        """End what is left, Redis last; names of those that had to be killed."""
        killed = self.stop_workers()
        return [*killed, *_end(self.others), *_end([self.redis])]

    def _stop(self, worker: Child, until: float) -> None:
        worker.signal(signal.SIGSTOP)
        pid = worker.pid

        def go_on() -> None:
            if worker.pid == pid:
                worker.signal(signal.SIGCONT)

        self._undo.append((until, go_on))

    def _cut(self, proxy: TcpProxy, fault: Fault, begin: float) -> None:
        if fault.for_s == 0:
            proxy.reset()
            return
        proxy.drop()
        end = proxy.resume if fault.how == "resume" else proxy.reset
        self._undo.append((begin + fault.for_s, end))

    def _end_redis(self, fault: Fault, begin: float) -> None:
        self.redis.is_kept = False
        if fault.how == "kill":
            self.redis.kill()
        else:
            self.redis.terminate()
        self._redis_down = begin
        self._undo.append((begin + fault.for_s, self._let_redis_start))

    def _let_redis_start(self) -> None:
        self.redis.is_kept = True

    def _watch_redis(self, now: float) -> None:
        if self._redis_down is not None and self.redis.is_kept and self.redis.pid is not None:
            if is_answering(self._place.redis_socket):
                self._notebook.add(Span(self._redis_down, time.monotonic(), "Redis was down"))
                self._redis_down = None
        elif self._redis_down is None and self.redis.pid is None:
            self._redis_down = now

    def _watch_workers(self, now: float) -> None:
        is_any = any(worker.pid is not None for worker in self.workers.values())
        if not is_any and self._all_down is None:
            self._all_down = now
        elif is_any and self._all_down is not None:
            self._notebook.add(Span(self._all_down, now, "all workers were down"))
            self._all_down = None


def _end(children: Sequence[Child]) -> list[str]:
    for child in children:
        child.is_kept = False
        child.terminate()
    deadline = time.monotonic() + TERM_GRACE_S
    while any(child.pid is not None for child in children) and time.monotonic() < deadline:
        for child in children:
            child.tick()
        time.sleep(0.05)
    late = [child for child in children if child.pid is not None]
    for child in late:
        child.kill()
    return [child.name for child in late]


def _text(fault: Fault) -> str:
    return " ".join(fault.text().split()[2:])
