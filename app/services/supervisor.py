"""Which VMs this worker runs: runners begin and end with the buckets it holds and with the fleet's VMs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from app.cluster.ring import BucketSet
from app.errors import OwnershipLost, StoreUnavailable
from app.ports.peers import MetricsSource, MonitorConnector
from app.ports.platform import Platform
from app.ports.runtime import Clock, Concurrency, Signal
from app.ports.store import BucketName, FencingToken, StateStore, VmWrite
from app.ports.vm import VirtualMachine, VmKey
from app.services.agent_settings import AgentSettings
from app.services.committing import BucketCommitter
from app.services.guarding import Guards
from app.services.held_bucket import HeldBucket
from app.services.informants import Informants
from app.services.inventory import Inventory
from app.services.monitor_link import MonitorLink
from app.services.monitor_links import MonitorLinks
from app.services.record_version import is_of_newer_version
from app.services.restarting import Restarting
from app.services.runner import Runner
from app.services.runner_life import Life, RunnerCounts
from app.services.spreading import spread
from app.services.starting import Starting

logger = logging.getLogger(__name__)

DIAL_WAIT_S = 1.0
"""A monitor that is there has taken a connection by then, on a busy host too."""


class Supervisor:
    """Holds the runners of the buckets that this worker owns.

    Args:
        consider: ask a runner's core again and act on it; does not wait.
        forget: a runner is let go.
    """

    def __init__(
        self,
        settings: AgentSettings,
        clock: Clock,
        concurrency: Concurrency,
        ring: BucketSet,
        store: StateStore,
        guards: Guards,
        peers: tuple[Platform, MonitorConnector, MetricsSource],
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._concurrency = concurrency
        self._ring = ring
        self._store = store
        self._guards = guards
        self._platform, connector, self._source = peers
        self._buckets: dict[BucketName, HeldBucket] = {}
        runtime = clock, concurrency
        self._starting = Starting(settings, runtime, self._platform, guards, self._ready, self.crashed)
        self._restarting = Restarting(
            settings,
            runtime,
            self._buckets,
            self._starting.counts,
            save=lambda runner: self.commit(runner.bucket, [runner]),
            close=self._close,
            begin=self._begin_again,
        )
        self._links = MonitorLinks(
            connector, guards, clock, concurrency, lambda runner: self._consider(runner)
        )
        self._informants: Informants | None = None
        self._consider: Callable[[Runner], None] = lambda runner: None
        self._forget: Callable[[Runner], None] = lambda runner: None
        self._fenced: Callable[[BucketName, FencingToken], None] = lambda bucket, token: None
        self.inventory = Inventory(
            self._platform,
            self._vm_updated,
            self._vm_removed,
            self._whole_list_read,
            spread(settings.worker),
        )

    def connect(
        self,
        consider: Callable[[Runner], None],
        forget: Callable[[Runner], None],
        has_scheduler: Callable[[], bool],
        fenced: Callable[[BucketName, FencingToken], None],
    ) -> None:
        """Name whom runners are handed to, and who is told that a write was refused for its old token.

        Called once, before anything runs.
        """
        self._consider, self._forget, self._fenced = consider, forget, fenced
        self._starting.connect(has_scheduler, self._restarting.not_begun)

    def give_way(self, must: Callable[[], bool]) -> None:
        """Connections to monitors let polls go first while this is so; called once, before anything runs."""
        self._links.give_way(must)

    def register_with(self, informants: Informants) -> None:
        """Be an agent of each VM's informant; called once, before anything runs, or not at all."""
        self._informants = informants
        informants.connect(self._leave_changed)

    def report_to(self, watch: Callable[[Runner], None]) -> None:
        """Tell of each runner as it is born; called once, before anything runs, or not at all."""
        self._starting.born = watch

    def _leave_changed(self, runner: Runner) -> None:
        self.relink(runner)
        self._consider(runner)

    # --- look-ups -----------------------------------------------------------------------------------------

    def runners(self) -> list[Runner]:
        """All runners of this worker."""
        return [runner for bucket in self._buckets.values() for runner in bucket.runners.values()]

    def runners_of(self, bucket: BucketName) -> list[Runner]:
        """The runners of one bucket; none while it isn't held or its records are being read."""
        held = self._buckets.get(bucket)
        return [] if held is None or held.is_releasing else list(held.runners.values())

    def runner(self, bucket: BucketName, key: VmKey) -> Runner | None:
        """One VM's runner, if it is here."""
        held = self._buckets.get(bucket)
        return None if held is None or held.is_releasing else held.runners.get(key)

    def left_alone(self) -> list[VmKey]:
        """VMs of held buckets that are not run, since a newer version wrote their records."""
        listed = self.inventory.vms
        return sorted(key for held in self._buckets.values() for key in held.left_alone if key in listed)

    @property
    def counts(self) -> RunnerCounts:
        """How many runs of runners have begun and failed."""
        return self._starting.counts

    @property
    def monitors_connected(self) -> int:
        """How many monitors there is a connection to."""
        return self._links.connected

    def lives(self) -> list[tuple[VmKey, Life, Runner | None]]:
        """Each VM that has a runner here, or should have one."""
        return [
            (key, life, held.runners.get(key))
            for held in list(self._buckets.values())
            for key, life in list(held.lives.items())
        ]

    def bucket_of(self, key: VmKey) -> BucketName:
        """The bucket that a VM belongs to."""
        return BucketName(self._ring.owner(key))

    def link(self, runner: Runner) -> MonitorLink | None:
        """The connection to a VM's monitor."""
        return self._links.of(runner)

    def relink(self, runner: Runner) -> None:
        """Be connected to the VM's informant and monitor, or not, as mode, policy and intents say now."""
        if self._informants is not None:
            self._informants.adjust(runner)
        self._links.adjust(runner)

    def commit(self, bucket: BucketName, runners: Iterable[Runner]) -> None:
        """Write runners of one bucket through, fenced.

        Raises:
            OwnershipLost: the bucket isn't ours any more.
            StoreUnavailable: no answer from Redis.
        """
        held = self._buckets.get(bucket)
        if held is None:
            raise OwnershipLost(bucket, "is not held here")
        self._guards.guard(bucket).check()
        held.committer.commit(runners)

    # --- buckets ------------------------------------------------------------------------------------------

    def acquired(self, bucket: BucketName, token: FencingToken) -> None:
        """A lease was won: fence out the earlier owner, read the records, begin.

        Raises:
            StoreUnavailable: the bucket can't be begun; let it go.
            OwnershipLost: someone newer has it already.
        """
        self._store.raise_fence(bucket, token)
        records = self._store.load(bucket)

        def send(writes: list[VmWrite]) -> None:
            try:
                self._store.commit(bucket, token, writes)
            except OwnershipLost:
                self._fenced(bucket, token)
                raise

        self._buckets[bucket] = HeldBucket(
            token, BucketCommitter(send, self._concurrency, self.crashed), records
        )
        logger.info("bucket taken", extra={"bucket": bucket, "token": token, "records": len(records)})
        self._begin(bucket, [vm for vm in self.inventory.vms.values() if self._ring.owner(vm.key) == bucket])
        if self.inventory.is_ready:
            self._drop_orphans(bucket)

    def lost(self, bucket: BucketName) -> None:
        """The lease is gone: stop at once, close connections, write nothing."""
        held = self._buckets.pop(bucket, None)
        if held is None:
            return
        self._close_all(held.runners.values())
        logger.warning("bucket lost", extra={"bucket": bucket, "vms": len(held.runners)})

    def releasing(self, bucket: BucketName) -> None:
        """The lease is about to be handed over: finish what runs, save, stop."""
        held = self._buckets.get(bucket)
        if held is None:
            return
        held.is_releasing = True
        runners = list(held.runners.values())
        for runner in runners:
            runner.is_leaving = True
        began = self._clock.monotonic()
        while self._must_wait(runners, self._clock.monotonic() - began):
            self._concurrency.sleep(0.02)
        try:
            self.commit(bucket, runners)
        except (OwnershipLost, StoreUnavailable) as err:
            logger.warning("bucket not saved at hand-over", extra={"bucket": bucket, "reason": str(err)})
        self._close_all(runners)
        self._buckets.pop(bucket, None)
        logger.info("bucket handed over", extra={"bucket": bucket, "vms": len(runners)})

    def _must_wait(self, runners: Iterable[Runner], waited_s: float) -> bool:
        """Whether a peer may still be told something by us.

        Dialling counts, but not for long: it ends other connections to the monitor, and a monitor that is not
        there must not hold up a hand-over.
        """
        if waited_s < DIAL_WAIT_S and any(map(self._links.is_dialling, runners)):
            return True
        return waited_s < self._longest_call_s() and any(runner.is_busy for runner in runners)

    def dial_no_more(self) -> None:
        """The worker ends: it connects to no monitor any more, and no hand-over has to wait for that."""
        self._links.dial_no_more()

    def crashed(self, runner: Runner, err: Exception) -> None:
        """Our own code failed in a runner: it is begun anew after a pause, the others go on."""
        self._restarting.failed(runner, err)

    # --- VMs ----------------------------------------------------------------------------------------------

    def _vm_updated(self, vm: VirtualMachine) -> None:
        bucket = self.bucket_of(vm.key)
        held = self._buckets.get(bucket)
        if held is None or held.is_releasing:
            return
        runner = held.runners.get(vm.key)
        if runner is None:
            self._begin(bucket, [vm])
            return
        try:
            runner.update_vm(vm)
            self.relink(runner)
        except Exception as err:  # noqa: BLE001 the edge of a VM: the others are told of their changes
            self.crashed(runner, err)
        self._consider(runner)

    def _vm_removed(self, key: VmKey) -> None:
        bucket = self.bucket_of(key)
        held = self._buckets.get(bucket)
        if held is None:
            return
        runner, _ = held.runners.pop(key, None), held.lives.pop(key, None)
        if runner is None:
            return
        runner.audit.add("deleted", why="the platform no longer has it")
        self._close_all([runner])
        self._delete(bucket, held, [VmWrite(key, None, is_deleted=True, events=runner.audit.take())])
        logger.info("VM gone", extra={"vm": key})

    def _delete(self, bucket: BucketName, held: HeldBucket, deletions: list[VmWrite]) -> None:
        def run() -> None:
            try:
                self._guards.guard(bucket).check()
                held.committer.commit([], deletions)
            except (OwnershipLost, StoreUnavailable) as err:
                logger.warning("record not deleted", extra={"bucket": bucket, "reason": str(err)})
                held.records.update((write.key, b"") for write in deletions)

        self._concurrency.spawn(f"delete records of {bucket}", run)

    def _whole_list_read(self) -> None:
        for bucket in list(self._buckets):
            self._drop_orphans(bucket)

    def _drop_orphans(self, bucket: BucketName) -> None:
        """Records of VMs that went while nobody owned the bucket."""
        held = self._buckets[bucket]
        listed, unreadable = self.inventory.vms, self.inventory.unreadable
        orphans = [
            key
            for key, raw in held.records.items()
            if key not in listed and key not in unreadable and not is_of_newer_version(raw)
        ]
        if orphans:
            for key in orphans:
                del held.records[key]
            self._delete(bucket, held, [VmWrite(key, None, is_deleted=True) for key in orphans])

    def _begin_again(self, bucket: BucketName, key: VmKey) -> None:
        vm = self.inventory.vms.get(key)
        if vm is not None:
            self._begin(bucket, [vm])

    def _begin(self, bucket: BucketName, vms: Iterable[VirtualMachine]) -> None:
        held = self._buckets[bucket]
        if not held.is_releasing:
            self._starting.begin(bucket, held, vms)

    def _ready(self, runner: Runner) -> None:
        self.relink(runner)
        self._consider(runner)

    def _longest_call_s(self) -> float:
        """No call that a runner has begun takes longer: a hand-over that waits for it leaves none behind."""
        times = self._settings
        return (
            max(times.platform_timeout_s, times.monitor_response_timeout_s, times.scheduler_timeout_s) + 0.5
        )

    def _close_all(self, runners: Iterable[Runner]) -> None:
        for runner in runners:
            self._close(runner)
            if runner.vm.metrics is not None:
                self._source.forget(runner.vm.metrics)

    def _close(self, runner: Runner) -> None:
        runner.is_closed = True
        held = self._buckets.get(runner.bucket)
        life = None if held is None else held.lives.get(runner.key)
        if life is not None:
            life.cancel(self._clock.wall_ms())
        self._forget(runner)
        self._links.leave(runner)
        if self._informants is not None:
            self._informants.leave(runner)

    def run_inventory(self, stop: Signal) -> None:
        """Follow the platform's VMs until stopped."""
        self.inventory.run(stop)
