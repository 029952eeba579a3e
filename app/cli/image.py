"""`vmscaler image build|show|prune`: the guest image that local VMs start from."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import click

from app.adapters.xdg import cache_directory, state_directory
from app.cli.shapes import show_json
from app.services.wording import count_text

_IMAGES_HELP = "Where images are; else in the user's cache directory."


@click.group("image")
def image_group() -> None:
    """Build the guest image for VMs on this machine, show it, remove old ones."""


@image_group.command("build")
@click.option("--images", type=click.Path(file_okay=False, path_type=Path), help=_IMAGES_HELP)
@click.option("--force", "is_forced", is_flag=True, help="Build it even if it is there.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def build_command(images: Path | None, is_forced: bool, as_json: bool) -> None:
    """Build the image from Debian packages, as an ordinary user.

    Packages are cached; with the same packages and the same daemon the image is found, not built again.
    """
    from app.adapters.image_build import build_image

    begun = time.monotonic()
    image = build_image(images or images_directory(), cache_directory() / "packages", is_forced=is_forced)
    seconds = time.monotonic() - begun
    if as_json:
        shown = {"directory": str(image.directory), "digest": image.digest, "is_new": image.is_new}
        show_json({**shown, "seconds": round(seconds, 1)})
        return
    done = f"built in {seconds:.1f} s" if image.is_new else "there already"
    click.echo(f"image {image.digest[:12]} {done}: {image.directory}")


@image_group.command("show")
@click.option("--images", type=click.Path(file_okay=False, path_type=Path), help=_IMAGES_HELP)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def show_command(images: Path | None, as_json: bool) -> None:
    """Say which image new VMs start from."""
    from app.adapters.image_build import current_image

    image = current_image(images or images_directory())
    if as_json:
        show_json({"directory": str(image.directory), "digest": image.digest})
        return
    click.echo(f"image {image.digest[:12]}: {image.directory}")


@image_group.command("prune")
@click.option("--images", type=click.Path(file_okay=False, path_type=Path), help=_IMAGES_HELP)
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Another directory of VMs whose images are kept too.",
)
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def prune_command(images: Path | None, states: tuple[Path, ...], dry_run: bool, as_json: bool) -> None:
    """Remove images that no VM was created with, but the newest one, and their packages."""
    from app.adapters.image_prune import find_unneeded, remove

    place = images or images_directory()
    in_use = _images_in_use((state_directory(), *states))
    unneeded = find_unneeded(place, cache_directory() / "packages", in_use, now=time.time())
    if not dry_run:
        remove(unneeded)
    if as_json:
        paths = [str(path) for path in unneeded.paths]
        show_json({"removed": not dry_run, "paths": paths, "bytes": unneeded.size_bytes})
        return
    for path in unneeded.paths:
        click.echo(str(path))
    done = "can be removed" if dry_run else "removed"
    click.echo(f"{count_text(len(unneeded.paths), 'path')} {done}, {unneeded.size_bytes >> 20} MiB")


def _images_in_use(states: Sequence[Path]) -> list[Path]:
    """Of all VMs that were created there.

    Raises:
        InvalidInput: a VM's description can't be read, so its image is not known.
    """
    from app.adapters.qemu_directory import vm_directories

    return [Path(directory.read().image) for state in states for directory in vm_directories(state)]


def images_directory() -> Path:
    """Where images are unless an option says otherwise."""
    return cache_directory() / "images"
