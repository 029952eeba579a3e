"""Workers bill a simulated fleet to a real HTTP sink while they are killed; then all seconds are counted.

`python -m tests.billing_chaos` (`make chaos-billing`), with BILLING_KILLS=100 BILLING_SEED=1. A worker is
killed at a random moment, or by the sink: before it answers a batch that it has stored. The sink also refuses
batches, and stores them and answers 500. With BILLING_WORKERS=real they are whole Celery workers, which take
some seconds to start; else their billing alone (`tests/billing_process.py`).
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Protocol

import redis

from app.adapters.embedded_redis import start_embedded
from tests.billing_judge import differences, journal_sums, out_of_order
from tests.celery_process import QUICK, CeleryProcess, write_config
from tests.fakes.event_server import EventServer, Request, event_server
from tests.fleet_process import FleetProcess, until

CPU, ACTIVE = "effective_compute_seconds", "active_time_seconds"
VMS = 8
TOKEN = 10**9
"""Above every worker's: the test changes the sizes, they only look."""


class KillingSink(EventServer):
    """A sink that fails on purpose; `victim` is killed while it waits for an answer."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self._chance = chance
        self.victim: Victim | None = None
        self.is_calm = False

    def answer(self, request: Request) -> tuple[int, bytes]:
        """Store it, or not; say so, or not."""
        dice = 1.0 if self.is_calm else self._chance.random()
        if dice < 0.1:
            return 503, b"not now"
        victim, self.victim = self.victim, None
        answer = super().answer(request)
        if victim is not None:
            victim.stop(signal.SIGKILL)
            return 0, b""
        return (500, b"stored, but") if dice < 0.2 else answer


class Victim(Protocol):
    """What is killed."""

    def wait_for(self, text: str) -> None:
        """Until its log has it."""

    def stop(self, number: int) -> int:
        """End it by a signal."""


class Chaos:
    """One run's processes and what they leave.

    Args:
        is_real: whole Celery workers, two at a time.
    """

    def __init__(self, directory: Path, seed: int, sink: KillingSink, *, is_real: bool) -> None:
        self.chance = random.Random(seed)
        self.sink = sink
        self._is_real = is_real
        self._directory = directory
        self._redis = start_embedded(directory / "redis")
        self.client: Any = redis.Redis.from_url(self._redis.url)
        self.fleet = FleetProcess(vms=VMS)
        self.journal = directory / "journal"
        self._config = write_config(
            directory / "config.json",
            {"url": self._redis.url},
            platform={"kind": "sim", "url": self.fleet.url},
            billing={
                "url": sink.url,
                "collectEverySeconds": 0.1,
                "accumulateEverySeconds": 0.5,
                "pushEverySeconds": 0.1,
                "maxBatchSize": 5,
            },
            metering={"journal": str(self.journal)},
            ownership={**QUICK["ownership"], "buckets": 4},
        )
        self.workers: list[Victim] = []
        self.started = self.kills = 0

    def start(self) -> None:
        """One more worker."""
        self.started += 1
        name = f"worker{self.started}"
        if self._is_real:
            self.workers.append(CeleryProcess.worker(self._config, self._directory, name))
        else:
            self.workers.append(BillingProcess(self._config, self._directory, name, self.started))

    def run(self, kills: int, longest_s: float) -> None:
        """Kill so many workers, each some moments after it has begun to bill, at most `longest_s`."""
        for _ in range(2 if self._is_real else 1):
            self.start()
        until(lambda: bool(self.sink.requests), "a first batch arrives")
        while self.kills < kills:
            # The eldest has had the buckets, or is about to lose them to the one that comes.
            victim = self.workers.pop(0)
            victim.wait_for("bucket taken" if self._is_real else "up")
            is_early = self.chance.random() < 0.5
            if is_early:
                self.start()
            self._change_for(self.chance.uniform(0.0, longest_s))
            if self.chance.random() < 0.4:
                self.sink.victim = victim
                self._change_for(1.0)
            victim.stop(signal.SIGKILL)
            self.sink.victim = None
            self.kills += 1
            if not is_early:
                self.start()

    def _change_for(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.change_sizes()
            time.sleep(0.1)

    def change_sizes(self) -> None:
        """Some VMs get other CPUs; the platform tells the workers."""
        for vm in self.fleet.vms().values():
            if self.chance.random() < 0.5:
                self.fleet.ask(vm, self.chance.randrange(250, 4_001, 250), vm["use"]["mem"], token=TOKEN)

    def end(self) -> None:
        """No more faults, and no more VMs: all that was used becomes events, and all events arrive."""
        self.sink.is_calm = True
        for key in self.fleet.vms():
            self.fleet.api("DELETE", f"/v1/vms/{key}")
        until(lambda: self.waiting() == (0, 0), f"all events arrive; now {self.waiting()}")

    def waiting(self) -> tuple[int, int]:
        """Meters that are not closed, and events that were not delivered."""
        meters = sum(
            field.startswith(b"[")
            for key in self.client.scan_iter("vmscaler:*:billing")
            for field in self.client.hkeys(key)
        )
        outboxes = self.client.scan_iter("vmscaler:*:billing:outbox:*")
        return meters, sum(self.client.llen(key) for key in outboxes)

    def verdict(self) -> list[str]:
        """What is wrong; nothing, if each second was billed once."""
        lines: list[dict[str, Any]] = [json.loads(line) for line in self.journal.read_text().splitlines()]
        keys = list(self.client.scan_iter("vmscaler:*:billing"))
        steps = {key.decode().split("{")[1].split("}")[0]: int(self.client.hget(key, "step")) for key in keys}
        used = journal_sums(lines, steps)
        events = self.sink.events
        wrong = differences(events, used, cpu=CPU, active=ACTIVE) + out_of_order(events)
        if len(used) != VMS or any(sums.active < 1_000 for sums in used.values()):
            wrong.append(f"too little was used to judge: {used}")
        return wrong

    def summary(self) -> str:
        """What the run was like."""
        events = self.sink.events
        keys = {event["idempotency_key"] for event in events}
        return (
            f"{self.kills} kills, {len(events)} events arrived, {len(keys)} different, "
            f"{sum(1 for _ in self.journal.open())} lines of journal"
        )

    def close(self) -> None:
        """End everything."""
        for worker in self.workers:
            worker.stop(signal.SIGKILL)
        self.fleet.stop()
        self._redis.stop()


class BillingProcess:
    """A worker's billing alone; its output goes to a file."""

    def __init__(self, config: Path, directory: Path, name: str, token: int) -> None:
        self._log = directory / f"{name}.log"
        command = [sys.executable, "-m", "tests.billing_process", str(config), name, str(token)]
        with self._log.open("ab") as output:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)

    def wait_for(self, text: str) -> None:
        """Until its log has it."""

        def is_there() -> bool:
            log = self._log.read_text(errors="replace")
            assert text in log or self.process.poll() is None, log[-3000:]
            return text in log

        until(is_there, f"{text!r} in {self._log}")

    def stop(self, number: int) -> int:
        """End it by a signal."""
        self.process.send_signal(number)
        return self.process.wait(30)


def run_chaos(
    kills: int, seed: int, *, longest_s: float = 2.5, is_real: bool = False
) -> tuple[list[str], str]:
    """One run: what is wrong, and a summary."""
    directory = Path(tempfile.mkdtemp(prefix="vmscaler-"))
    try:
        with event_server(KillingSink(random.Random(seed + 1))) as sink:
            chaos = Chaos(directory, seed, sink, is_real=is_real)
            try:
                chaos.run(kills, longest_s)
                chaos.end()
                return chaos.verdict(), chaos.summary()
            finally:
                chaos.close()
    finally:
        shutil.rmtree(directory)


if __name__ == "__main__":
    found, told = run_chaos(
        int(os.environ.get("BILLING_KILLS", "100")),
        int(os.environ.get("BILLING_SEED", "1")),
        is_real=os.environ.get("BILLING_WORKERS") == "real",
    )
    verdict = "\n".join(found) or "each second billed once, none lost, to the rounding of each VM"
    sys.stdout.write(f"{told}\n{verdict}\n")
    sys.exit(bool(found))
