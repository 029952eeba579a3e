"""Writes files into one archive, `.tar.gz`, that only its owner may read."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Mapping
from pathlib import Path

from app.errors import UsageError


def write_archive(path: Path, directory: str, files: Mapping[str, bytes], *, at_s: int) -> int:
    """Write a new archive; its size in bytes.

    Args:
        directory: what the files are in, within the archive.
        files: contents by name.
        at_s: Unix time that they bear.

    Raises:
        UsageError: there is such a file already, or none can be written there.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as err:
        raise UsageError(f"{path}: can't be written: {err.strerror}") from err
    try:
        with os.fdopen(descriptor, "wb") as file, tarfile.open(fileobj=file, mode="w:gz") as archive:
            for name, content in files.items():
                entry = tarfile.TarInfo(f"{directory}/{name}")
                entry.size, entry.mtime, entry.mode = len(content), at_s, 0o600
                archive.addfile(entry, io.BytesIO(content))
        return path.stat().st_size
    except OSError as err:
        path.unlink(missing_ok=True)
        raise UsageError(f"{path}: can't be written: {err.strerror}") from err
