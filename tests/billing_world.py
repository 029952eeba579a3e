"""One bucket, its VMs, and workers that hold it one after the other and may die anywhere, in one process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from app.core.resources import resources
from app.errors import OwnershipLost, StoreUnavailable
from app.ports.platform import Cursor, InventoryChange
from app.ports.store import BucketName, FencingToken
from app.ports.vm import VirtualMachine
from app.services.billing import Billing, BillingTimes
from app.services.bucket_meters import MeterRules
from app.services.inventory import Inventory
from app.services.outbox_pushing import OutboxPushing, PushRules
from app.services.usage_events import MetricNames, UsageEvents
from tests.fakes.billing import MemoryBilling, MemorySink
from tests.fakes.clock import FakeClock
from tests.fakes.concurrency import VirtualConcurrency
from tests.fakes.platform import FakePlatform
from tests.service_builders import BUCKET, a_virtual_machine

CPU, ACTIVE = "cpu", "active"


class Killed(BaseException):
    """The process is gone; not an Exception, as nothing may catch it."""


class Lines:
    """A journal in memory."""

    def __init__(self) -> None:
        self.lines: list[dict[str, object]] = []

    def write(self, **facts: object) -> None:
        self.lines.append(facts)


class HeldBucket:
    """The guard of a worker's one bucket."""

    def __init__(self, token: FencingToken) -> None:
        self.token = token
        self.is_lost = False

    def guard(self, bucket: BucketName) -> HeldBucket:
        self.check()
        return self

    def limit_s(self, setting_s: float) -> float:
        self.check()
        return setting_s

    def check(self) -> None:
        if self.is_lost:
            raise OwnershipLost(BUCKET, "the lease has ended")


class Unhurried(VirtualConcurrency):
    """Nobody else is there to let run."""

    def sleep(self, seconds: float) -> None:
        assert seconds == 0


class BillingWorker:
    """A worker's billing and its inventory, on clocks and a store that it shares with others."""

    def __init__(self, world: BillingWorld, token: FencingToken) -> None:
        self.guards = HeldBucket(token)
        names = tuple(sink.name for sink in world.sinks)
        rules = PushRules(push_every_s=24, timeout_s=5, max_batch=world.max_batch)
        self.pushing = tuple(OutboxPushing(sink, world.store, self.guards, rules) for sink in world.sinks)
        self.billing = Billing(
            BillingTimes(collect_every_s=4, accumulate_every_s=24),
            MeterRules(names, max_gap_ms=45_000, max_waiting=world.max_waiting),
            (world.clock, Unhurried(world.clock)),
            world.store,
            UsageEvents(world.clock, f"host-{token}", MetricNames(CPU, ACTIVE)),
            self.pushing,
            world.journal,
        )
        self.inventory = Inventory(
            FakePlatform(), lambda vm: None, lambda key: None, lambda: None, spread=0.5
        )
        self.billing.connect(self.inventory, lambda key: BUCKET)
        self.billing.acquired(BUCKET, token)

    def collect(self) -> None:
        self.billing.collect()

    def push(self) -> None:
        """Deliver what is ripe, without the pause that lets Redis' disk follow."""
        for pushing in self.pushing:
            pushing.push(pushing.look(), NeverStopped())


class NeverStopped:
    """A `Signal` that is never set."""

    def set(self) -> None:
        raise AssertionError("nobody stops here")

    clear = set

    def is_set(self) -> bool:
        return False

    def wait(self, timeout_s: float | None = None) -> bool:
        return False


class BillingWorld:
    """Everything around the workers.

    Attributes:
        dies_at: how many more moments (writes, deliveries; before and after) the present worker lives to see.
        loses_answers: so many writes to Redis take effect and are not answered.
    """

    def __init__(self, *, max_waiting: int = 1_000, max_batch: int = 3, sinks: int = 1) -> None:
        self.clock = FakeClock()
        self.store = MemoryBilling(self._around)
        self.sinks = [MemorySink(name) for name in ("http", "s3", "file")[:sinks]]
        for sink in self.sinks:
            sink.around = self._around
        self.max_waiting, self.max_batch = max_waiting, max_batch
        self.journal = Lines()
        self.vms: dict[str, VirtualMachine] = {}
        self.unreadable: tuple[tuple[str, str], ...] = ()
        self.token = FencingToken(0)
        self.dies_at: int | None = None
        self.loses_answers = 0
        self.is_platform_away = False
        self.worker = self.take_over()

    def take_over(self) -> BillingWorker:
        """Another worker takes the bucket."""
        self.dies_at = None
        self.token = FencingToken(self.token + 1)
        self.store.raise_fence(BUCKET, self.token)
        self.worker = BillingWorker(self, self.token)
        return self.worker

    def put_vm(self, name: str = "db", *, cpu: int | None = 1_000, uid: str = "uid-1", endpoint: str) -> None:
        observed = None if cpu is None else resources(cpu, 4)
        vm = a_virtual_machine(name=name, uid=uid, endpoint_id=endpoint)
        self.vms[name] = replace(vm, observed=observed)

    def collect(self, worker: BillingWorker | None = None) -> None:
        """The platform tells what there is, and the worker's turn comes."""
        worker = worker or self.worker
        if not self.is_platform_away:
            vms = tuple(vm for vm in self.vms.values() if vm.key not in dict(self.unreadable))
            worker.inventory.take(InventoryChange(Cursor("1"), True, vms, unreadable=self.unreadable))
        self._live(worker.collect)

    def push(self, worker: BillingWorker | None = None) -> None:
        self._live((worker or self.worker).push)

    def run(self, seconds: float, *, step_s: float = 4.0) -> None:
        """Turn after turn."""
        for _ in range(round(seconds / step_s)):
            self.clock.advance(step_s)
            self.collect()

    def drain(self) -> None:
        """Let all that was used become events, and all events arrive."""
        self.dies_at, self.loses_answers = None, 0
        for sink in self.sinks:
            sink.refuse = sink.refuse_late = None
        self.store.is_away = self.is_platform_away = False
        for _ in range(4):
            self.push()
            self.clock.advance(25)
            self.collect()
        self.push()

    def last_steps(self) -> dict[str, int]:
        return {str(bucket): step for bucket, step in self.store.steps.items()}

    def _live(self, act: Callable[[], None]) -> None:
        try:
            act()
        except Killed:
            self.take_over()

    def _around(self, moment: str) -> None:
        if self.dies_at is not None:
            if self.dies_at == 0:
                raise Killed(moment)
            self.dies_at -= 1
        if self.loses_answers and moment in ("after a commit", "after a removal"):
            self.loses_answers -= 1
            raise StoreUnavailable("redis", "its answer got lost")
