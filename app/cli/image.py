"""`vmscaler image build|show`: the guest image that local VMs start from."""

from __future__ import annotations

import time
from pathlib import Path

import click

from app.adapters.xdg import cache_directory
from app.cli.shapes import show_json

_IMAGES_HELP = "Where images are; else in the user's cache directory."


@click.group("image")
def image_group() -> None:
    """Build the guest image for VMs on this machine, and show it."""


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


def images_directory() -> Path:
    """Where images are unless an option says otherwise."""
    return cache_directory() / "images"
