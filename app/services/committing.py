"""Fenced commits of one bucket: one at a time, in order, many VMs in one call.

Whoever asks while a commit is under way joins the next one, so that the order of writes is that of the
calls and a busy bucket pays for one round trip, not for one per VM.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from app.errors import InternalError, VmscalerError
from app.ports.runtime import Concurrency, Signal
from app.ports.store import VmWrite
from app.ports.vm import VmKey
from app.services.record import build_write
from app.services.runner import Runner

MAX_VMS_A_CALL = 250
"""VMs in one call of the fenced script (8 µs each; larger calls hold Redis up)."""


class _Batch:
    """Runners that are written together; `done` is set when `error` tells how it went."""

    def __init__(self, done: Signal) -> None:
        self.runners: dict[VmKey, Runner] = {}
        self.deletions: list[VmWrite] = []
        self.done = done
        self.error: VmscalerError | None = None
        self.unwritable: set[VmKey] = set()


class BucketCommitter:
    """Writes the records of one bucket's runners.

    Args:
        send: the fenced write; raises OwnershipLost or StoreUnavailable.
        failed: told of a runner of which no record could be made; the others are written.
    """

    def __init__(
        self,
        send: Callable[[list[VmWrite]], None],
        concurrency: Concurrency,
        failed: Callable[[Runner, Exception], None],
    ) -> None:
        self._send = send
        self._failed = failed
        self._concurrency = concurrency
        self._next = _Batch(concurrency.signal())
        self._is_busy = False

    def commit(self, runners: Iterable[Runner], deletions: Iterable[VmWrite] = ()) -> None:
        """Write these runners' present state; returns when Redis has it.

        Raises:
            OwnershipLost: the bucket has a newer owner; nothing was written.
            StoreUnavailable: it may or may not have been written; begin no effect.
            InternalError: no record could be made of any of these runners.
        """
        batch, runners = self._next, list(runners)
        batch.runners.update((runner.key, runner) for runner in runners)
        batch.deletions.extend(deletions)
        if self._is_busy:
            batch.done.wait()
        else:
            self._is_busy = True
            try:
                self._flush_all()
            finally:
                self._is_busy = False
        if batch.error is not None:
            raise batch.error
        if runners and batch.unwritable.issuperset(runner.key for runner in runners):
            raise InternalError(f"no record can be made of {runners[0].key}")

    def _flush_all(self) -> None:
        while self._next.runners or self._next.deletions:
            batch, self._next = self._next, _Batch(self._concurrency.signal())
            try:
                self._write(batch)
            except VmscalerError as err:
                batch.error = err
            except BaseException:
                batch.error = InternalError("the commit was interrupted")
                raise
            finally:
                batch.done.set()

    def _write(self, batch: _Batch) -> None:
        # First what is gone: a VM of the same name may have come since, and its record must stay.
        if batch.deletions:
            self._send(batch.deletions)
        runners = [runner for runner in batch.runners.values() if not runner.is_closed]
        for start in range(0, len(runners), MAX_VMS_A_CALL):
            made = self._make(runners[start : start + MAX_VMS_A_CALL], batch)
            if not made:
                continue
            try:
                self._send([write for _, write in made])
            except BaseException:
                for runner, write in made:
                    runner.audit.give_back(write.events)
                raise

    def _make(self, runners: list[Runner], batch: _Batch) -> list[tuple[Runner, VmWrite]]:
        """The writes of these runners; one that fails harms no other."""
        made = []
        for runner in runners:
            try:
                made.append((runner, build_write(runner)))
            except Exception as err:  # noqa: BLE001 the edge of a VM
                batch.unwritable.add(runner.key)
                self._failed(runner, err)
        return made
