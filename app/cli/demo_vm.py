"""`vmscaler demo-vm`: two real VMs on this machine, scaled live under load, by one command."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import click

from app.adapters.clock import SystemClock
from app.adapters.embedded_redis import find_redis_server
from app.adapters.image_build import build_image
from app.adapters.processes import GuardedLauncher, follow_parent
from app.adapters.qemu_directory import CONSOLE_LOG, LocalVm, VmDirectory
from app.adapters.qemu_local import UP_LIMIT_S, LocalVms
from app.adapters.xdg import cache_directory
from app.cli.demo import GRACE_S, STATUS_MISSING, log_to, tidy
from app.cli.demo_guests import GuestWatch
from app.cli.demo_run import DemoRun, StopRequest
from app.cli.demo_setup import DemoSetup, control_plane_specs
from app.cli.demo_vm_script import DemoScript
from app.cli.demo_vm_setup import VMS, describe_vms, example_commands, need_qemu, prepare_vms, vms_of
from app.cli.image import images_directory
from app.errors import ConfigurationError
from app.services.process_keeping import ProcessKeeper
from app.services.wording import span_text

_LOOK_S = 0.25


@click.command("demo-vm")
@click.option(
    "--seconds",
    type=click.FloatRange(1, 86_400),
    envvar="DEMO_SECONDS",
    help="End by itself so long after both VMs are up; exit status 1 if guests have not seen all by then.",
)
@click.option("--accel", type=click.Choice(["auto", "kvm", "tcg"]), default="auto", help="How VMs run.")
@click.option("--stop-with-parent", is_flag=True, help="Stop when the process that started this one ends.")
def demo_vm_command(seconds: float | None, accel: str, stop_with_parent: bool) -> int:
    """Run two real VMs under load on this machine, and a fleet that scales them, and watch.

    Builds the guest image unless it is there, starts the VMs and all processes of a fleet; one VM gets busy
    threads, then the other a memory hog. Needs QEMU, no root, no KVM. Ctrl-C stops all of it.
    """
    request = StopRequest()
    if stop_with_parent:
        follow_parent(signal.SIGTERM)
    need_qemu()
    server = find_redis_server()
    click.echo("the guest image: built unless it is there …")
    image = build_image(images_directory(), cache_directory() / "packages")
    setup = prepare_vms(os.environ)
    log_to(setup.logs / "demo.log")
    launcher = GuardedLauncher(setup.directory)
    vms = vms_of(setup, image)
    keeper = ProcessKeeper(launcher, SystemClock(), sleep=time.sleep)
    status = STATUS_MISSING
    try:
        if bring_up(vms, describe_vms(image), launcher, request, accel, setup.logs):
            for line in example_commands(setup, Path(sys.argv[0])):
                click.echo(f"  {line}")
            status = _run(setup, server, keeper, request, vms, seconds)
        else:
            status = 128 + (request.signal_number or signal.SIGTERM)
    finally:
        keeper.kill()
        _stop_all(vms, launcher)
        tidy(setup, keep_logs=status == STATUS_MISSING and request.signal_number is None)
        launcher.close()
    return status


def bring_up(
    vms: LocalVms,
    described: Sequence[LocalVm],
    launcher: GuardedLauncher,
    request: StopRequest,
    accel: str,
    logs: Path,
) -> bool:
    """Create the VMs, start them side by side, wait for their guests; False: asked to stop meanwhile.

    Raises:
        ConfigurationError: one did not come up.
    """
    begun = time.monotonic()
    waiting: list[VmDirectory] = []
    for vm in described:
        directory = vms.create(vm)
        vms.start(directory, accelerator=accel)
        if (pid := directory.pid()) is not None:
            launcher.guard(pid)
        waiting.append(directory)
    click.echo(f"{', '.join(VMS)}: started, waiting for their guests …")
    while waiting:
        if request.wait(_LOOK_S):
            return False
        for directory in [each for each in waiting if vms.is_up(each)]:
            waiting.remove(directory)
            click.echo(f"{directory.name}: its guest answers, after {time.monotonic() - begun:.1f} s")
        if waiting and time.monotonic() - begun > UP_LIMIT_S:
            kept = logs / f"{waiting[0].name}-console.log"
            with contextlib.suppress(OSError):
                shutil.copyfile(waiting[0].file(CONSOLE_LOG), kept)
            raise ConfigurationError(
                [f"no answer from its guest in {UP_LIMIT_S:g} s; see {kept}"], source=waiting[0].name
            )
    return True


def _run(
    setup: DemoSetup,
    server: Path,
    keeper: ProcessKeeper,
    request: StopRequest,
    vms: LocalVms,
    limit_s: float | None,
) -> int:
    """The run itself, from both VMs being up; the exit status."""
    script = DemoScript(*VMS)
    watch = GuestWatch(
        {each.name: vms.guest(each) for each in vms.all()},
        lambda now_s, facts, is_ready: script.step(now_s, facts, is_ready=is_ready),
    )
    specs = control_plane_specs(setup)
    run = DemoRun(setup, server, keeper, request, specs=specs, limit_s=limit_s, companion=watch)
    watch.start()
    try:
        run.watch()
    finally:
        watch.stop()
    ran_s = run.elapsed_s
    click.echo("stopping: workers first, VMs last …")
    if not request.is_urgent:
        keeper.stop(GRACE_S)
    for line in _summary(script, run, ran_s):
        click.echo(line)
    if request.signal_number is not None:
        return 0 if limit_s is None else 128 + request.signal_number
    if script.missing():
        click.echo(f"  logs: {setup.logs}")
        return STATUS_MISSING
    return 0


def _summary(script: DemoScript, run: DemoRun, ran_s: float) -> Sequence[str]:
    completed = run.tally.completed
    missing = script.missing()
    return (
        f"demo-vm: {span_text(ran_s * 1000)}; {completed['upscales']} upscales, "
        f"{completed['downscales']} downscales completed",
        *(f"  {line}" for line in script.lines()),
        "  " + ("missing: " + "; ".join(missing) if missing else "nothing is missing"),
    )


def _stop_all(vms: LocalVms, launcher: GuardedLauncher) -> None:
    for directory in vms.all():
        pid = directory.pid()
        vms.stop(directory)
        if pid is not None:
            launcher.release(pid)
