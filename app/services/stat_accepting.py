"""The owner takes a pushed stat in: as a sample, as polling does, and committed before it counts.

What must be true: the timestamp of the last accepted stat is in the VM's record, written by the same fenced
commit as the sample, so that no owner accepts one twice or an older one after a newer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from app.errors import OwnershipLost, PeerRefused
from app.ports.store import BucketName, FencingToken
from app.ports.vm import VmKey
from app.protocols.stats import Stat
from app.services.guarding import Guards
from app.services.runner import Runner
from app.services.stat_fates import Fate


class Runners(Protocol):
    """Where runners are found: the supervisor."""

    def bucket_of(self, key: VmKey) -> BucketName:
        """The bucket that a VM belongs to."""
        ...

    def runner(self, bucket: BucketName, key: VmKey) -> Runner | None:
        """One VM's runner, if it is here."""
        ...


class StatAccepting:
    """Accepts stats of the VMs whose runners are here.

    Args:
        commit: write a runner through, fenced; raises OwnershipLost or StoreUnavailable.
        dispatch: act on the runner's plan; does not wait.
        crashed: called with a runner in which our own code failed.
        accepted: told of each stat that is in, with the token that it was committed under.
    """

    def __init__(
        self,
        runners: Runners,
        guards: Guards,
        commit: Callable[[Runner], None],
        dispatch: Callable[[Runner], None],
        crashed: Callable[[Runner, Exception], None],
        accepted: Callable[[Stat, FencingToken], None],
    ) -> None:
        self._runners = runners
        self._guards = guards
        self._commit = commit
        self._dispatch = dispatch
        self._crashed = crashed
        self._accepted = accepted
        # Applied, and perhaps committed: Redis gave no answer. Tried again, they are not late.
        self._unconfirmed: dict[VmKey, tuple[Runner, int]] = {}

    def accept(self, stat: Stat) -> Fate:
        """Take it in; called for one stat of a VM at a time.

        Raises:
            PeerRefused: there is no such VM here (yet).
            OwnershipLost: the bucket isn't ours any more; nothing was written, or the next owner knows of it.
            StoreUnavailable: try the same one again.
        """
        key = VmKey(stat.key)
        bucket = self._runners.bucket_of(key)
        runner = self._runners.runner(bucket, key)
        if runner is None:
            raise PeerRefused(stat.key, "there is no such VM here")
        guard = self._guards.guard(bucket)
        guard.check()
        mark = (runner, stat.timestamp)
        if self._unconfirmed.get(key) != mark:
            if runner.stat_ms is not None and stat.timestamp <= runner.stat_ms:
                return Fate.LATE
            self._apply(runner, stat)
            self._unconfirmed[key] = mark
        self._commit(runner)
        if runner.is_closed:
            # It went while it was written: the next owner's record says whether it was.
            self._unconfirmed.pop(key, None)
            raise OwnershipLost(bucket, "its runner has ended")
        self._unconfirmed.pop(key, None)
        self._accepted(stat, guard.token)
        self._dispatch(runner)
        return Fate.ACCEPTED

    def forget(self, runner: Runner) -> None:
        """The runner is let go."""
        if self._unconfirmed.get(runner.key, (None, 0))[0] is runner:
            del self._unconfirmed[runner.key]

    def _apply(self, runner: Runner, stat: Stat) -> None:
        try:
            runner.stat_ms = stat.timestamp
            runner.take_sample(stat.metrics())
            runner.update_status()
            runner.decide()
        except Exception as err:
            self._crashed(runner, err)
            raise
