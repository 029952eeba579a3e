"""`vmscaler demo`: everything on this machine, started, shown and stopped by one command."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import click

from app.adapters.clock import SystemClock
from app.adapters.embedded_redis import find_redis_server
from app.adapters.processes import GuardedLauncher, follow_parent
from app.cli.demo_report import summary_lines
from app.cli.demo_run import DemoRun, StopRequest
from app.cli.demo_setup import DemoSetup, prepare, process_specs
from app.services.process_keeping import ProcessKeeper

GRACE_S = 8.0
"""What workers get to finish and to release their buckets, and each later wave as well."""

STATUS_MISSING = 1
"""Exit status when not all was shown that a demo has to show."""


@click.command("demo")
@click.option("--vms", default=24, show_default=True, type=click.IntRange(1, 1000), help="Simulated VMs.")
@click.option(
    "--seconds",
    type=click.FloatRange(1, 86_400),
    envvar="DEMO_SECONDS",
    help="End by itself after so long; exit status 1 if no upscale or no downscale was completed by then.",
)
@click.option("--stop-with-parent", is_flag=True, help="Stop when the process that started this one ends.")
def demo_command(vms: int, seconds: float | None, stop_with_parent: bool) -> int:
    """Run everything on this machine, with simulated VMs, and watch.

    Starts Redis, beat, two workers, Flower, the scheduler, a fleet of simulated VMs, and shows this machine
    beside them, observed only. Ctrl-C stops all of it; a second one does not wait.
    """
    request = StopRequest()
    if stop_with_parent:
        follow_parent(signal.SIGTERM)
    server = find_redis_server()
    setup = prepare(vms, os.environ)
    log_to(setup.logs / "demo.log")
    launcher = GuardedLauncher(setup.directory)
    keeper = ProcessKeeper(launcher, SystemClock(), sleep=time.sleep)
    run = DemoRun(setup, server, keeper, request, specs=process_specs(setup), limit_s=seconds)
    status = STATUS_MISSING
    try:
        run.watch()
        status = _finish(run, keeper, request, click.echo)
    finally:
        keeper.kill()
        # Whoever stopped it by hand knows why; an error, or something missing, wants to be looked into.
        tidy(setup, keep_logs=status == STATUS_MISSING and request.signal_number is None)
        launcher.close()
    return status


def _finish(run: DemoRun, keeper: ProcessKeeper, request: StopRequest, say: Callable[[str], None]) -> int:
    """Stop all, print the summary; the exit status."""
    children, ran_s = keeper.states(), run.elapsed_s
    say("stopping: workers first, Redis last …")
    killed = () if request.is_urgent else keeper.stop(GRACE_S)
    for name in killed:
        say(f"{name} did not end within {GRACE_S:g} s and was killed")
    for line in summary_lines(run.tally, children, ran_s):
        say(line)
    if request.signal_number is not None:
        # Stopped by hand: nothing was promised, unless a time was.
        return 0 if run.limit_s is None else 128 + request.signal_number
    if run.tally.missing():
        say(f"  logs: {run.setup.logs}")
        return STATUS_MISSING
    return 0


def tidy(setup: DemoSetup, *, keep_logs: bool) -> None:
    """Remove the private directory, or all of it but the logs; it may be gone already."""
    if not keep_logs or not setup.logs.is_dir():
        shutil.rmtree(setup.directory, ignore_errors=True)
        return
    for path in setup.directory.iterdir():
        if path == setup.logs:
            continue
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def log_to(path: Path) -> None:
    """Our own log lines go to a file: the screen is not theirs."""
    handler = logging.FileHandler(path, encoding="utf-8")
    form = "%(asctime)s %(levelname)s %(name)s: %(message)s %(child)s %(end)s"
    handler.setFormatter(logging.Formatter(form, defaults={"child": "", "end": ""}))
    logging.getLogger("app").addHandler(handler)
