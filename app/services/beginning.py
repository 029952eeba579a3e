"""How a runner begins: anew, or from the record of an earlier owner.

What an earlier owner had in flight is unknown: the core is told that the monitor is gone and that a platform
request has failed, and its last sample is forgotten.
"""

from __future__ import annotations

import logging

from app.core.events import MetricsArrived, MonitorReset, PlatformFailed, UpdatedVm
from app.core.resources import Resources
from app.errors import InvalidInput, NewerVersion
from app.ports.runtime import Clock
from app.ports.store import BucketName
from app.ports.vm import VirtualMachine
from app.services.agent_settings import AgentSettings
from app.services.record import restore_runner
from app.services.runner import Runner

logger = logging.getLogger(__name__)


def begin_runner(
    vm: VirtualMachine,
    bucket: BucketName,
    raw: bytes | None,
    settings: AgentSettings,
    clock: Clock,
    *,
    failed: str | None = None,
) -> Runner:
    """A runner of this VM.

    Args:
        raw: the record that Redis has of it, if any.
        failed: how the run before ended, where this worker had one.

    Raises:
        NewerVersion: a later version of this program owned it: leave the VM and its record alone.
        InvalidInput: the VM itself can't be scaled; a record that can't be used is only logged.
    """
    if raw:
        try:
            runner = restore_runner(raw, vm, bucket, settings, clock)
        except NewerVersion:
            raise
        except InvalidInput as err:
            logger.warning("record not used", extra={"vm": vm.key, "reason": str(err)})
        else:
            _forget_what_was_in_flight(runner)
            _note(runner, "taken_over", "the bucket has a new owner", failed)
            runner.apply(UpdatedVm(vm.for_core()))
            return runner
    runner = Runner(vm, bucket, settings, clock)
    _note(runner, "added", "the platform has it", failed, vm.real_size)
    return runner


def _note(runner: Runner, kind: str, why: str, failed: str | None, size: Resources | None = None) -> None:
    if failed is not None:
        kind, why = "restarted", f"the runner before {failed}"
    runner.audit.add(kind, why=why, target=size)


def _forget_what_was_in_flight(runner: Runner) -> None:
    runner.apply(MonitorReset())
    runner.apply(MetricsArrived(None))
    if runner.state.platform.ongoing is not None:
        runner.apply(PlatformFailed(runner.now()))
