"""`vmscaler vm create|start|stop|delete|console|local`: VMs on this machine, each with a QEMU of its own."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from pydantic import ValidationError

from app.adapters.xdg import state_directory
from app.cli.shapes import show_json
from app.cli.tables import Column, show_table
from app.errors import UsageError, VmscalerError

if TYPE_CHECKING:
    from app.adapters.qemu_directory import LocalVm, VmDirectory
    from app.adapters.qemu_local import LocalVms

STATE = click.option(
    "--state",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where VMs are; else the user's state directory.",
)
_ALL = click.option("--all", "is_all", is_flag=True, help="All VMs of this machine.")
_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


def local_vms(state: Path | None) -> LocalVms:
    """The VMs below a state directory."""
    from app.adapters.image_build import Image
    from app.adapters.qemu_local import LocalVms
    from app.errors import ConfigurationError

    def files(directory: Path) -> tuple[Path, Path, Path]:
        image = Image(directory, "")
        if not image.root.is_file():
            problem = f"{directory}: the image is gone; run vmscaler image build, and create the VM anew"
            raise ConfigurationError([problem], source="image")
        return image.kernel, image.initramfs, image.root

    return LocalVms(state or state_directory(), files)


@click.command("create")
@click.argument("name")
@click.option("--min-cpu", default="1", show_default=True, metavar="CPUS", help="The least CPUs.")
@click.option("--max-cpu", default="4", show_default=True, metavar="CPUS", help="The most.")
@click.option("--min-memory", default="512Mi", show_default=True, metavar="SIZE", help="The least memory.")
@click.option("--max-memory", default="2Gi", show_default=True, metavar="SIZE", help="The most.")
@click.option("--slot", default="128Mi", show_default=True, metavar="SIZE", help="The step of memory.")
@click.option(
    "--cpu-driver",
    type=click.Choice(["guest", "qmp"]),
    default="guest",
    show_default=True,
    help="Who adds CPUs.",
)
@click.option(
    "--memory-driver",
    type=click.Choice(["virtio-mem", "dimm", "balloon"]),
    default="virtio-mem",
    show_default=True,
    help="How memory is changed.",
)
@click.option("--billing-id", metavar="ID", help="Billing identity.")
@click.option("--label", "labels", multiple=True, metavar="NAME=VALUE", help="A label.")
@click.option("--port", default=0, type=click.IntRange(0, 65_535), help="On loopback; else a free one.")
@click.option("--start", "is_started", is_flag=True, help="Start it, too.")
@STATE
def create_command(
    name: str, state: Path | None, is_started: bool, labels: tuple[str, ...], **options: object
) -> None:
    """Create a VM called NAME from the guest image that was built last."""
    vms = local_vms(state)
    directory = vms.create(_describe(name, labels, options))
    click.echo(f"created {directory.name}: {directory.path}")
    if is_started:
        _start(vms, [directory], "auto", is_waited=True)


@click.command("start")
@click.argument("names", nargs=-1)
@_ALL
@click.option(
    "--accel",
    type=click.Choice(["auto", "kvm", "tcg"]),
    default="auto",
    show_default=True,
    help="How it runs.",
)
@click.option(
    "--wait/--no-wait", "is_waited", default=True, show_default=True, help="Wait until guests answer."
)
@STATE
def start_command(
    names: tuple[str, ...], is_all: bool, accel: str, is_waited: bool, state: Path | None
) -> None:
    """Start VMs; they go on when vmscaler ends."""
    vms = local_vms(state)
    _start(vms, _chosen(vms, names, is_all=is_all), accel, is_waited=is_waited)


@click.command("stop")
@click.argument("names", nargs=-1)
@_ALL
@STATE
def stop_command(names: tuple[str, ...], is_all: bool, state: Path | None) -> None:
    """End VMs' QEMUs; the VMs can be started again."""
    vms = local_vms(state)

    def stop(directory: VmDirectory) -> None:
        done = "stopped" if vms.stop(directory) else "was not running"
        click.echo(f"{directory.name}: {done}")

    _each(_chosen(vms, names, is_all=is_all), stop)


@click.command("delete")
@click.argument("names", nargs=-1)
@_ALL
@STATE
def delete_command(names: tuple[str, ...], is_all: bool, state: Path | None) -> None:
    """Stop VMs, and remove all that is kept about them."""
    vms = local_vms(state)

    def delete(directory: VmDirectory) -> None:
        vms.delete(directory)
        click.echo(f"{directory.name}: deleted")

    _each(_chosen(vms, names, is_all=is_all), delete)


@click.command("local")
@_JSON
@STATE
def local_command(as_json: bool, state: Path | None) -> None:
    """List the VMs of this machine, running or not."""
    vms = local_vms(state)
    standings = [vms.standing(directory) for directory in vms.all()]
    if as_json:
        shown = [
            {
                "name": each.directory.name,
                "state": each.state,
                "pid": each.pid,
                "port": each.directory.host_port(),
                "directory": str(each.directory.path),
            }
            for each in standings
        ]
        show_json({"vms": shown})
    elif standings:
        columns = (
            Column("vm"),
            Column("state"),
            Column("pid", is_right=True),
            Column("port", is_right=True),
            Column("directory"),
        )
        show_table(
            columns,
            [
                (
                    each.directory.name,
                    each.state,
                    str(each.pid or "-"),
                    str(each.directory.host_port() or "-"),
                    str(each.directory.path),
                )
                for each in standings
            ],
        )
    else:
        click.echo("no VM on this machine; create one with: vmscaler vm create NAME")


@click.command("console")
@click.argument("name")
@STATE
def console_command(name: str, state: Path | None) -> None:
    """Talk to VM NAME's serial console; Ctrl-] ends that. A root shell is there."""
    from app.cli.vm_console import run_console

    directory = local_vms(state).find(name)
    if not directory.is_running():
        raise UsageError(f"{directory.name} is not running")
    run_console(directory.file("console.sock"))


def _start(vms: LocalVms, chosen: Sequence[VmDirectory], accel: str, *, is_waited: bool) -> None:
    """All are started before the first is waited for: they come up side by side."""
    begun: list[VmDirectory] = []

    def start(directory: VmDirectory) -> None:
        is_new = vms.start(directory, accelerator=accel)
        begun.append(directory)
        done = f"started, port {directory.host_port()}" if is_new else "runs already"
        click.echo(f"{directory.name}: {done}")

    def wait(directory: VmDirectory) -> None:
        click.echo(f"{directory.name}: its guest answers, after {vms.wait_up(directory):.1f} s")

    try:
        _each(chosen, start)
    finally:
        if is_waited:
            _each(begun, wait)


def _each(chosen: Sequence[VmDirectory], act: Callable[[VmDirectory], None]) -> None:
    """Do it with each; one that fails keeps none of the others from it. The first failure is raised."""
    first: VmscalerError | None = None
    for directory in chosen:
        try:
            act(directory)
        except VmscalerError as err:
            if first is None:
                first = err
            else:
                click.echo(str(err), err=True)
    if first is not None:
        raise first


def _chosen(vms: LocalVms, names: Sequence[str], *, is_all: bool) -> list[VmDirectory]:
    if bool(names) == is_all:
        raise UsageError("name VMs, or give --all")
    return vms.all() if is_all else [vms.find(name) for name in dict.fromkeys(names)]


def _describe(name: str, labels: Sequence[str], options: dict[str, object]) -> LocalVm:
    """The VM as the options say. Raises UsageError."""
    from app.adapters.image_build import current_image
    from app.adapters.qemu_directory import LocalVm, check_local_vm
    from app.adapters.qemu_local import new_uid
    from app.cli.image import images_directory
    from app.config.problems import tell_all

    pairs = [label.partition("=") for label in labels]
    if any(not equals for _, equals, _ in pairs):
        raise UsageError("--label takes NAME=VALUE")
    fields = {
        "name": name,
        "uid": new_uid(),
        "node": socket.gethostname(),
        "min": {"cpu": options["min_cpu"], "memory": options["min_memory"]},
        "max": {"cpu": options["max_cpu"], "memory": options["max_memory"]},
        "slot": options["slot"],
        "image": "-",
        "cpuDriver": options["cpu_driver"],
        "memoryDriver": options["memory_driver"],
        "billingId": options["billing_id"],
        "labels": {key: value for key, _, value in pairs},
        "port": options["port"],
    }
    try:
        vm = LocalVm.model_validate(fields)
    except ValidationError as err:
        raise UsageError(tell_all(err.errors(include_url=False), LocalVm)[0].removeprefix(".")) from err
    check_local_vm(vm)
    return vm.model_copy(update={"image": str(current_image(images_directory()).directory)})
