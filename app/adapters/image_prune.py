"""Removes guest images that nothing needs any more, what builds that were killed left, and their packages.

Kept are the image that new VMs get, and those that a VM was created with. A QEMU that runs has its image's
files open, so that it goes on even where its VM is not known here; only starting it again would fail.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from app.adapters.image_build import BUILDING, CURRENT, MANIFEST
from app.errors import ConfigurationError

ABANDONED_AFTER_S = 3600.0
"""A build takes a minute; what lies about for longer belongs to one that was killed."""


@dataclass(frozen=True, slots=True)
class Unneeded:
    """What can go.

    Attributes:
        paths: images and abandoned builds, each a directory, and packages, each a file.
        size_bytes: of all of it.
    """

    paths: tuple[Path, ...]
    size_bytes: int


def find_unneeded(images: Path, packages: Path, in_use: Collection[Path], *, now: float) -> Unneeded:
    """Look for what nothing needs; removes nothing.

    Args:
        packages: the cache of packages.
        in_use: images' directories that VMs were created with.
        now: Unix seconds, to tell a build that runs from one that was killed.

    Raises:
        ConfigurationError: a directory can't be read.
    """
    kept = {path.resolve() for path in in_use} | {(images / CURRENT).resolve()}
    found: list[Path] = []
    try:
        for path in sorted(images.iterdir()) if images.is_dir() else ():
            if path.is_symlink() or not path.is_dir() or path.resolve() in kept:
                continue
            is_build = path.name.startswith(BUILDING)
            if (is_build and now - path.stat().st_mtime > ABANDONED_AFTER_S) or (path / MANIFEST).is_file():
                found.append(path)
        needed = {name for image in kept for name in _package_names(image)}
        cached = sorted(packages.iterdir()) if needed and packages.is_dir() else ()
        found += [path for path in cached if path.suffix == ".deb" and path.name not in needed]
        return Unneeded(tuple(found), sum(map(_size, found)))
    except OSError as err:
        raise ConfigurationError([f"{err.filename}: {err.strerror}"], source="image prune") from err


def remove(unneeded: Unneeded) -> None:
    """Remove it; what has gone meanwhile is no error.

    Raises:
        ConfigurationError: something can't be removed.
    """
    for path in unneeded.paths:
        try:
            if path.is_dir():
                # First out of its place, so that nobody takes a half of it for an image.
                gone = path.with_name(f"{BUILDING}gone-{path.name}")
                path.rename(gone)
                shutil.rmtree(gone)
            else:
                path.unlink()
        except FileNotFoundError:
            continue
        except OSError as err:
            raise ConfigurationError([f"{path}: {err.strerror}"], source="image prune") from err


def _package_names(image: Path) -> tuple[str, ...]:
    """Of what it was built from; none where it does not say."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        return tuple(json.loads((image / MANIFEST).read_text("utf-8"))["packages"])
    return ()


def _size(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else (path,)
    return sum(each.lstat().st_size for each in files)
