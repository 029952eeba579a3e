"""Everything of a worker but Redis, Celery and the network, for tests of its services together."""

from __future__ import annotations

import json
from collections.abc import Callable

import gevent

from app.adapters.clock import SystemClock
from app.adapters.green import GreenConcurrency
from app.cluster.ring import BucketSet
from app.core.resources import Resources
from app.errors import OwnershipLost, PeerUnreachable
from app.ports.peers import MonitorConnector
from app.ports.store import BucketName, FencingToken, Intent
from app.ports.vm import Address, VirtualMachine, VmKey
from app.services.agent_settings import AgentSettings
from app.services.executors import Executors
from app.services.informants import Informants
from app.services.runner import Runner
from app.services.scaling import Scaling
from app.services.scheduler_link import SchedulerLink
from app.services.supervisor import Supervisor
from app.services.taking_up import take_up
from app.services.timers import Timers
from tests.fakes.peers import FakeMonitor, FakeScheduler, FakeTaskQueue
from tests.fakes.platform import FakePlatform
from tests.fakes.states import MemoryState
from tests.service_builders import BUCKET, a_virtual_machine, load_of, some_settings


class Guards:
    """Leases that are held until told otherwise."""

    def __init__(self) -> None:
        self.token = FencingToken(1)
        self.is_lost = False

    def guard(self, bucket: BucketName) -> Guards:
        self.check()
        return self

    def limit_s(self, setting_s: float) -> float:
        self.check()
        return setting_s or 1.0

    def check(self) -> None:
        if self.is_lost:
            raise OwnershipLost(BUCKET, "the lease has ended")


class NoPages:
    """Samples come by hand here."""

    def fetch(self, address: Address, *, timeout_s: float) -> bytes:
        raise PeerUnreachable("pages", "there are none")

    def forget(self, address: Address) -> None:
        """Nothing is kept."""

    def close(self) -> None:
        """Nothing is open."""


class LoggedPlatform(FakePlatform):
    """Notes what is asked in the same log as the other peers."""

    def __init__(self, log: list[str], *vms: VirtualMachine) -> None:
        super().__init__(*vms)
        self._order = log
        self.problem: Exception | None = None
        self.before_apply: Callable[[], None] = lambda: None

    def apply_size(
        self, vm: VirtualMachine, target: Resources, *, token: FencingToken, timeout_s: float
    ) -> None:
        gevent.sleep(0)
        self.before_apply()
        if self.problem is not None:
            raise self.problem
        super().apply_size(vm, target, token=token, timeout_s=timeout_s)
        self._order.append(f"platform {target.cpu}/{target.mem}")


class Worker:
    """Everything of a worker but Redis and the network."""

    def __init__(
        self,
        *vms: VirtualMachine,
        states: MemoryState | None = None,
        intents: tuple[Intent, ...] = (),
        informants: Informants | None = None,
        is_ready: bool = True,
        monitors: MonitorConnector | None = None,
        settings: AgentSettings | None = None,
    ) -> None:
        clock, concurrency = SystemClock(), GreenConcurrency()
        self.log: list[str] = []
        self.states = states or MemoryState(clock)
        self.guards = Guards()
        self.platform = LoggedPlatform(self.log, *(vms or (a_virtual_machine(),)))
        self.scheduler = FakeScheduler(self.log)
        self.monitor = FakeMonitor(self.log)
        self.queue = FakeTaskQueue()
        settings = settings or some_settings(monitor_retry_min_wait_s=0.05)
        self.supervisor = Supervisor(
            settings,
            clock,
            concurrency,
            BucketSet(1),
            self.states,
            self.guards,
            (self.platform, monitors or self.monitor, NoPages()),
        )
        self.timers = Timers(clock, concurrency, lambda key: None)
        self.link = SchedulerLink(self.scheduler, lambda is_there: None)
        self.link.look()
        executors = Executors(
            settings,
            clock,
            self.guards,
            self._commit,
            (self.link, self.scheduler),
            self.platform,
            self.supervisor.link,
        )
        self.crashes: list[Exception] = []
        self.scaling = Scaling(
            clock,
            concurrency,
            self.timers,
            self.queue,
            executors,
            self._commit,
            lambda runner, err: self.crashes.append(err),
        )
        self.queue.run = self._run_task
        self.supervisor.connect(
            self.scaling.consider,
            self.scaling.forget,
            lambda: self.link.current()[0] is not None,
            lambda bucket, token: self.supervisor.lost(bucket),
        )
        if informants is not None:
            self.supervisor.register_with(informants)
        self.supervisor.inventory.take(self.platform.changes(None, wait_s=0))
        self.supervisor.acquired(BUCKET, self.guards.token)
        self.take_up(*intents)
        if is_ready:
            self.until(lambda: all(runner.is_ready for runner in self.supervisor.runners()))
        self.settle()

    def take_up(self, *intents: Intent) -> None:
        """The owner's tick reads the operators' intents."""
        for runner in take_up(intents, self.supervisor.runners()):
            self.supervisor.relink(runner)
            self.scaling.consider(runner)

    def _commit(self, runner: Runner) -> None:
        self.supervisor.commit(runner.bucket, [runner])

    def _run_task(self, kind: str, bucket: BucketName, key: VmKey) -> None:
        runner = self.supervisor.runner(bucket, key)
        if runner is not None:
            self.scaling.run_task(runner, kind)

    @property
    def runner(self) -> Runner:
        (runner,) = self.supervisor.runners()
        return runner

    def sample(self, cpus: float, mem_gib: float = 0.5) -> None:
        """A sample arrives; what follows from it is done."""
        self.runner.take_sample(load_of(cpus, mem_gib))
        self.runner.decide()
        self.supervisor.commit(BUCKET, [self.runner])
        self.scaling.dispatch(self.runner)
        self.settle()

    def settle(self) -> None:
        """Let everything run that can, the platform's news included."""
        for _ in range(60):
            gevent.sleep(0.001)
            self.platform_news()

    def platform_news(self) -> None:
        """Take in what the platform has to tell."""
        change = self.platform.changes(self.supervisor.inventory._cursor, wait_s=0)
        if change.updated or change.removed:
            self.supervisor.inventory.take(change)

    def until(self, condition: Callable[[], bool]) -> None:
        with gevent.Timeout(10):
            while not condition():
                gevent.sleep(0.002)

    def audit(self) -> list[str]:
        entries = self.states.events(BUCKET, VmKey("default/db"), 100)
        return [json.loads(entry)["kind"] for _, entry in entries]
