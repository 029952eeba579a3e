"""Debian packages for the guest image: which ones, downloaded without root, kept in a cache, read as tar.

What a guest needs is a kernel, busybox, and Python with the libraries of its standard library. What those
packages want beside it (perl, dpkg, terminals, databases) is left out by name.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from app.errors import ConfigurationError

KERNEL = "linux-image-cloud-amd64"
"""Debian's kernel for VMs; a metapackage that names the current one."""
ROOTS = ("python3-minimal", "libpython3-stdlib", "busybox-static")
LEFT_OUT = re.compile(
    r"dpkg|tar|perl.*|libperl.*|debconf.*|mailcap|media-types|mime-support|readline-common|install-info|"
    r"libreadline.*|libncurses.*|libtinfo.*|libsqlite.*|libdb5.*|libnsl.*|libtirpc.*|libgssapi.*|libk.*|"
    r"libcom-err.*|libgdbm.*|netbase|gcc-.*-base|tzdata"
)
"""Not for the daemon: modules of the standard library that need them can't be imported in the guest."""

_STEP_LIMIT_S = 60.0
_DOWNLOAD_LIMIT_S = 600.0
_NAME = re.compile(r"[a-z0-9][a-z0-9+.-]+")
_SOURCE = "image"


@dataclass(frozen=True, slots=True)
class Package:
    """A package file, and the hash of its bytes."""

    path: Path
    sha256: str


def need_tools(*names: str) -> None:
    """Check that programs are there.

    Raises:
        ConfigurationError: one line with what to install.
    """
    packages = {
        "apt-get": "apt",
        "apt-cache": "apt",
        "dpkg-deb": "dpkg",
        "mke2fs": "e2fsprogs",
        "debugfs": "e2fsprogs",
        "qemu-system-x86_64": "qemu-system-x86",
    }
    # mke2fs is in /sbin, which is not on the PATH of every user.
    missing = [name for name in names if find_tool(name) is None]
    if missing:
        wanted = " ".join(dict.fromkeys(packages[name] for name in missing))
        raise ConfigurationError(
            [f"{missing[0]} is not installed; as root: apt-get install {wanted}"], source=_SOURCE
        )


def find_tool(name: str) -> str | None:
    """Where a program is, looking into the system's directories too."""
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def wanted_packages() -> tuple[str, list[str]]:
    """The kernel's real package, and the names of all others, sorted.

    Raises:
        ConfigurationError: apt knows no such package.
    """
    kernels = [name for name in _depends([KERNEL]) if name.startswith("linux-image-")]
    if not kernels:
        raise ConfigurationError(
            [f"apt knows no package {KERNEL}; as root: apt-get update (Debian's sources are needed)"],
            source=_SOURCE,
        )
    found: set[str] = set()
    waiting = list(ROOTS)
    while waiting:
        found.update(waiting)
        waiting = [name for name in _depends(waiting) if name not in found and not LEFT_OUT.fullmatch(name)]
    return kernels[0], sorted(found)


def download(names: Sequence[str], cache: Path) -> list[Package]:
    """The packages' files, from the cache where apt's version of them is there already.

    Raises:
        ConfigurationError: a package can't be had.
    """
    cache.mkdir(parents=True, exist_ok=True)
    wanted = _uris(names)
    missing = [name for name, (file, _) in wanted.items() if not (cache / file).is_file()]
    if missing:
        run_tool(["apt-get", "download", "-q", *missing], cwd=cache, limit_s=_DOWNLOAD_LIMIT_S)
    return [_checked(cache / file, size_and_hash) for _, (file, size_and_hash) in sorted(wanted.items())]


@contextlib.contextmanager
def open_package(package: Package) -> Iterator[tarfile.TarFile]:
    """A package's files as a tar that is read once, from front to back.

    Raises:
        ConfigurationError: dpkg-deb can't read it.
    """
    with subprocess.Popen(
        ["dpkg-deb", "--fsys-tarfile", str(package.path)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        if process.stdout is None:
            raise ConfigurationError([f"{package.path}: can't be read"], source=_SOURCE)
        try:
            with tarfile.open(fileobj=process.stdout, mode="r|") as archive:
                yield archive
        except tarfile.TarError as err:
            raise ConfigurationError([f"{package.path}: {err}; remove it"], source=_SOURCE) from err
        finally:
            process.kill()


def _depends(names: Sequence[str]) -> list[str]:
    """What packages need; of alternatives the first that is no virtual package."""
    options = [f"--no-{kind}" for kind in _OTHER_RELATIONS]
    text = run_tool(["apt-cache", "depends", *options, *names], limit_s=_STEP_LIMIT_S, may_fail=True)
    needed = []
    is_alternative = False
    for line in text.splitlines():
        found = re.match(r" ([ |])(Pre)?Depends: (\S+)$", line)
        if found is None:
            continue
        if not is_alternative and _NAME.fullmatch(found[3]):
            needed.append(found[3])
        is_alternative = found[1] == "|"
    return list(dict.fromkeys(needed))


_OTHER_RELATIONS = ("recommends", "suggests", "conflicts", "breaks", "replaces", "enhances")


def _uris(names: Sequence[str]) -> dict[str, tuple[str, str]]:
    """File name and SHA-256 (with its kind in front) by package, as apt knows them now."""
    text = run_tool(["apt-get", "download", "--print-uris", "-q", *names], limit_s=_STEP_LIMIT_S)
    found = {}
    for line in text.splitlines():
        parts = line.split()
        if len(parts) == 4 and parts[0].startswith("'"):
            file = Path(parts[1]).name
            found[file.partition("_")[0]] = (file, parts[3])
    missing = sorted(set(names) - set(found))
    if missing:
        raise ConfigurationError(
            [f"apt knows no package {missing[0]}; as root: apt-get update"], source=_SOURCE
        )
    return found


def _checked(path: Path, expected: str) -> Package:
    """A cached file whose hash is what apt says; another is removed, so that the next try gets it anew."""
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    kind, _, value = expected.partition(":")
    if kind == "SHA256" and value != digest:
        path.unlink()
        raise ConfigurationError([f"{path.name} was damaged and is removed; try again"], source=_SOURCE)
    return Package(path, digest)


def run_tool(
    command: list[str],
    *,
    limit_s: float,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
    may_fail: bool = False,
) -> str:
    """Run a program to its end; its output.

    Args:
        environment: its whole one; None: ours, with messages in English.

    Raises:
        ConfigurationError: it failed, with its last words, or did not end in time.
    """
    name = Path(command[0]).name
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            env={**os.environ, "LC_ALL": "C"} if environment is None else dict(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=limit_s,
            check=False,
        )
    except subprocess.TimeoutExpired as err:
        raise ConfigurationError([f"{name} did not end within {limit_s:g} s"], source=_SOURCE) from err
    if done.returncode != 0 and not may_fail:
        words = (done.stderr.strip() or done.stdout.strip() or "no reason given").splitlines()[-1][:300]
        raise ConfigurationError([f"{name} failed: {words}"], source=_SOURCE)
    return done.stdout
