"""Which VMs this worker runs: runners begin and end with the buckets it holds and with the fleet's VMs."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping

from app.cluster.ring import BucketSet
from app.core.events import PluginGone
from app.errors import InvalidInput, NewerVersion, OwnershipLost, StoreUnavailable, VmscalerError
from app.ports.peers import MetricsSource, MonitorConnector
from app.ports.platform import Platform
from app.ports.runtime import Clock, Concurrency, Signal
from app.ports.store import BucketName, FencingToken, StateStore, VmWrite
from app.ports.vm import VirtualMachine, VmKey
from app.services.agent_settings import AgentSettings
from app.services.beginning import begin_runner
from app.services.committing import BucketCommitter
from app.services.guarding import Guards
from app.services.informants import Informants
from app.services.inventory import Inventory
from app.services.monitor_link import MonitorLink
from app.services.monitor_links import MonitorLinks
from app.services.record import build_write
from app.services.record_version import is_of_newer_version
from app.services.runner import Runner
from app.services.spreading import spread

logger = logging.getLogger(__name__)

BEGIN_AT_ONCE = 8
"""VMs of one bucket whose real size is read at the same time after a take-over."""

READ_AGAIN_S = 1.0
"""Pause before a real size that could not be read, or is about to change, is asked for again."""


class _Bucket:
    """A held bucket: its runners, its committer, and records that wait for their VM to be listed.

    Those of a newer version than ours stay among the records, and their VMs in `left_alone`.
    """

    def __init__(
        self, token: FencingToken, committer: BucketCommitter, records: Mapping[VmKey, bytes]
    ) -> None:
        self.token = token
        self.committer = committer
        self.records = dict(records)
        self.runners: dict[VmKey, Runner] = {}
        self.left_alone: set[VmKey] = set()
        self.is_taken_over = bool(records)
        self.is_releasing = False


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
        self._buckets: dict[BucketName, _Bucket] = {}
        self._links = MonitorLinks(
            connector, guards, clock, concurrency, lambda runner: self._consider(runner)
        )
        self._informants: Informants | None = None
        self._has_scheduler: Callable[[], bool] = lambda: False
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
        self._consider, self._forget, self._has_scheduler = consider, forget, has_scheduler
        self._fenced = fenced

    def register_with(self, informants: Informants) -> None:
        """Be an agent of each VM's informant; called once, before anything runs, or not at all."""
        self._informants = informants
        informants.connect(self._leave_changed)

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

        self._buckets[bucket] = _Bucket(token, BucketCommitter(send, self._concurrency), records)
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
        deadline = self._clock.monotonic() + self._longest_call_s()
        while any(runner.is_busy for runner in runners) and self._clock.monotonic() < deadline:
            self._concurrency.sleep(0.02)
        try:
            self.commit(bucket, runners)
        except (OwnershipLost, StoreUnavailable) as err:
            logger.warning("bucket not saved at hand-over", extra={"bucket": bucket, "reason": str(err)})
        self._close_all(runners)
        self._buckets.pop(bucket, None)
        logger.info("bucket handed over", extra={"bucket": bucket, "vms": len(runners)})

    def crashed(self, runner: Runner, err: Exception) -> None:
        """Our own code failed in a runner: it is begun anew after a pause, the others go on."""
        logger.error("runner failed", extra={"vm": runner.key}, exc_info=err)
        held = self._buckets.get(runner.bucket)
        is_ours = held is not None and held.runners.get(runner.key) is runner
        if runner.is_closed or runner.status == "panicked" or not is_ours:
            return
        runner.is_ready = False
        runner.status, runner.status_reason = "panicked", f"{type(err).__name__}: {err}"
        runner.audit.add("failed", why=f"our own error: {runner.status_reason}")
        ran_s = self._clock.monotonic() - runner.started
        low, high = self._settings.restart_min_wait_s, self._settings.restart_max_wait_s
        pause = 0.0 if ran_s > high else low + (high - low) * spread(f"{runner.key} {runner.counters.polls}")
        self._concurrency.spawn(f"restart {runner.key}", lambda: self._restart(runner, pause))

    def _restart(self, runner: Runner, pause_s: float) -> None:
        """Begin a failed runner anew from its record; from nothing where that can't be had."""
        record: bytes | None = None
        try:
            self.commit(runner.bucket, [runner])
            record = build_write(runner).record
        except Exception as err:
            logger.exception("failed runner not saved", extra={"vm": runner.key, "reason": str(err)})
        self._close(runner)
        self._concurrency.sleep(pause_s)
        held = self._buckets.get(runner.bucket)
        if held is None or held.runners.get(runner.key) is not runner:
            return
        del held.runners[runner.key]
        if record is not None:
            held.records[runner.key] = record
        vm = self.inventory.vms.get(runner.key)
        if vm is not None:
            self._begin(runner.bucket, [vm])

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
        runner.update_vm(vm)
        self.relink(runner)
        self._consider(runner)

    def _vm_removed(self, key: VmKey) -> None:
        bucket = self.bucket_of(key)
        held = self._buckets.get(bucket)
        runner = None if held is None else held.runners.pop(key, None)
        if held is None or runner is None:
            return
        runner.audit.add("deleted", why="the platform no longer has it")
        self._close_all([runner])
        self._delete(bucket, held, [VmWrite(key, None, is_deleted=True, events=runner.audit.take())])
        logger.info("VM gone", extra={"vm": key})

    def _delete(self, bucket: BucketName, held: _Bucket, deletions: list[VmWrite]) -> None:
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

    def _begin(self, bucket: BucketName, vms: list[VirtualMachine]) -> None:
        """Start runners; the real size of those taken over is read before anything is asked for them."""
        held = self._buckets[bucket]
        todo: deque[tuple[Runner, bool]] = deque()
        for vm in vms:
            raw = held.records.pop(vm.key, None)
            try:
                runner = begin_runner(vm, bucket, raw, self._settings, self._clock)
                self._tell_scheduler(runner)
            except NewerVersion as err:
                if vm.key not in held.left_alone:
                    logger.warning("VM left alone", extra={"vm": vm.key, "reason": str(err)})
                held.left_alone.add(vm.key)
                held.records[vm.key] = raw or b""
                continue
            except InvalidInput as err:
                logger.warning("VM skipped: it can't be scaled", extra={"vm": vm.key, "reason": str(err)})
                continue
            held.runners[vm.key] = runner
            todo.append((runner, raw is not None))
        for _ in range(min(BEGIN_AT_ONCE, len(todo))):
            self._concurrency.spawn(f"begin VMs of {bucket}", lambda: self._begin_all(todo))

    def _begin_all(self, todo: deque[tuple[Runner, bool]]) -> None:
        """Begin those whose real size is known; the others are looked at again, after all the rest."""
        while todo:
            runner, is_taken_over = todo.popleft()
            if is_taken_over and not runner.is_closed and not self._is_real_size_told(runner):
                self._concurrency.sleep(READ_AGAIN_S)
                todo.append((runner, is_taken_over))
            elif not runner.is_closed:
                runner.is_ready = True
                self.relink(runner)
                self._consider(runner)

    def _tell_scheduler(self, runner: Runner) -> None:
        if self._has_scheduler():
            runner.tell_scheduler_is_new()
        else:
            runner.apply(PluginGone())

    def _is_real_size_told(self, runner: Runner) -> bool:
        """Read the real size and tell the core; an observed VM's platform is not asked, its word is taken."""
        try:
            if runner.is_observed:
                size = runner.vm.real_size
            else:
                guard = self._guards.guard(runner.bucket)
                size = self._platform.read_size(
                    runner.vm, timeout_s=guard.limit_s(self._settings.platform_timeout_s)
                )
            if runner.awaited is not None and runner.awaited.may_still_change(
                size, runner.vm.use, runner.now()
            ):
                # The scheduler keeps what it granted for it; told of less now, it would give it to another.
                return False
            if not runner.is_closed:
                runner.observe(size)
        except VmscalerError as err:
            logger.warning("real size not read at take-over", extra={"vm": runner.key, "reason": str(err)})
            return False
        return True

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
        self._forget(runner)
        self._links.leave(runner)
        if self._informants is not None:
            self._informants.leave(runner)

    def run_inventory(self, stop: Signal) -> None:
        """Follow the platform's VMs until stopped."""
        self.inventory.run(stop)
