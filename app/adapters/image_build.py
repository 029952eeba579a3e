"""Builds the guest image: kernel, initramfs, root file system; the same inputs give the same bytes.

An image is a directory named by the hash of its inputs, so that a build with the same packages and the same
daemon is found, not repeated. It is complete or not there: it is renamed into its place at the end.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from app.adapters.image_kernel import FILES, initramfs, read_kernel
from app.adapters.image_packages import Package, download, find_tool, need_tools, run_tool, wanted_packages
from app.adapters.image_tree import build_tree, guest_modules, library_files
from app.errors import ConfigurationError

FORMAT = 1
"""Raised when the recipe changes in a way that its inputs don't show."""
KERNEL, INITRAMFS, ROOT, MANIFEST = "vmlinuz", "initrd.img", "root.ext4", "image.json"
CURRENT = "current"
"""A link to the image that new VMs get."""
BUILDING = ".building-"
"""What directories are called that are being built, or being removed."""

_UUID = "0b1e55ed-0000-4000-8000-766d7363616c"
_SPARE_BYTES = 8 * 1024 * 1024
_EPOCH = "1"
_TOOL_LIMIT_S = 120.0


@dataclass(frozen=True, slots=True)
class Image:
    """A guest image.

    Attributes:
        directory: where its files are.
        digest: of the three files together; equal for equal inputs.
        is_new: it was built just now.
    """

    directory: Path
    digest: str
    is_new: bool = False

    @property
    def kernel(self) -> Path:
        """The bzImage."""
        return self.directory / KERNEL

    @property
    def initramfs(self) -> Path:
        """The archive that the kernel starts from."""
        return self.directory / INITRAMFS

    @property
    def root(self) -> Path:
        """The ext4 file system, mounted read-only by all VMs at once."""
        return self.directory / ROOT


def build_image(images: Path, cache: Path, *, is_forced: bool = False) -> Image:
    """The image of the packages that apt knows now and of this vmscaler's daemon; built unless it is there.

    Args:
        images: where images are.
        cache: where packages are kept.
        is_forced: build it even if it is there.

    Raises:
        ConfigurationError: one line: a tool that is missing, a package that can't be had.
    """
    need_tools("apt-get", "apt-cache", "dpkg-deb", "mke2fs", "debugfs")
    images.mkdir(parents=True, exist_ok=True)
    kernel_name, names = wanted_packages()
    packages = download([kernel_name, *names], cache)
    key = _key(packages)
    place = images / key[:16]
    is_new = is_forced or _read(place) is None
    if is_new:
        with tempfile.TemporaryDirectory(prefix=BUILDING, dir=images) as work:
            _build(Path(work), packages, kernel_name)
            built = Path(work) / "image"
            shutil.rmtree(place, ignore_errors=True)
            built.rename(place)
    image = _read(place)
    if image is None:
        raise ConfigurationError([f"{place}: the image is not complete"], source="image")
    _point(images / CURRENT, place.name)
    return Image(image.directory, image.digest, is_new)


def current_image(images: Path) -> Image:
    """The image that was built last.

    Raises:
        ConfigurationError: there is none; says what to run.
    """
    image = _read((images / CURRENT).resolve())
    if image is None:
        raise ConfigurationError(["no guest image yet; run: vmscaler image build"], source="image")
    return image


def _key(packages: Sequence[Package]) -> str:
    """The hash of all that goes in."""
    inputs = hashlib.sha256(f"format {FORMAT}\n".encode())
    for package in packages:
        inputs.update(f"{package.path.name} {package.sha256}\n".encode())
    scripts = {path.name: path for path in FILES.iterdir() if path.is_file()}
    recipe = {path.name: path for path in Path(__file__).parent.glob("image_*.py")}
    for name, path in sorted({**guest_modules(), **library_files(), **scripts, **recipe}.items()):
        inputs.update(f"{name} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return inputs.hexdigest()


def _build(work: Path, packages: Sequence[Package], kernel_name: str) -> None:
    image, tree = work / "image", work / "tree"
    image.mkdir()
    tree.mkdir()
    kernel = read_kernel(next(each for each in packages if each.path.name.startswith(f"{kernel_name}_")))
    build_tree([each for each in packages if not each.path.name.startswith("linux-image-")], tree)
    (image / KERNEL).write_bytes(kernel.image)
    (image / INITRAMFS).write_bytes(initramfs(kernel, (tree / "usr/bin/busybox").read_bytes()))
    _write_root(tree, image / ROOT)
    digests = {name: _digest(image / name) for name in (KERNEL, INITRAMFS, ROOT)}
    manifest = {
        "format": FORMAT,
        "sha256": digests,
        "digest": hashlib.sha256(json.dumps(digests, sort_keys=True).encode()).hexdigest(),
        "packages": {each.path.name: each.sha256 for each in packages},
    }
    (image / MANIFEST).write_text(json.dumps(manifest, indent=1, sort_keys=True) + "\n")


def _write_root(tree: Path, target: Path) -> None:
    """An ext4 file system of the tree: fixed identity, fixed times, everything root's."""
    size = _SPARE_BYTES
    for path in (tree, *tree.rglob("*")):
        if not path.is_symlink():
            # Whatever the builder's umask.
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
        os.utime(path, (1, 1), follow_symlinks=False)
        size += -(-path.lstat().st_size // 4096) * 4096 + 512
    with target.open("wb") as file:
        file.truncate(-(-size // 2**20) * 2**20)
    fixed = ["-U", _UUID, "-E", f"hash_seed={_UUID},root_owner=0:0,lazy_itable_init=0"]
    _tool(
        "mke2fs",
        "-q",
        "-F",
        "-t",
        "ext4",
        "-O",
        "^has_journal",
        "-m",
        "0",
        *fixed,
        "-d",
        str(tree),
        str(target),
    )
    _give_to_root(target, sorted(path.relative_to(tree).as_posix() for path in tree.rglob("*")))


def _give_to_root(target: Path, paths: Sequence[str]) -> None:
    """Make everything root's, of a fixed time: mke2fs takes both from who builds, and from when."""
    fields = dict.fromkeys(("uid", "gid"), "0")
    for name in ("ctime", "atime", "mtime", "crtime"):
        fields |= {name: f"@{_EPOCH}", f"{name}_extra": "0"}
    script = target.with_suffix(".debugfs")
    with script.open("w") as file:
        for path in ("/", "/lost+found", *(f"/{path}" for path in paths)):
            file.writelines(f'sif "{path}" {field} {value}\n' for field, value in fields.items())
    _tool("debugfs", "-w", "-f", str(script), str(target))
    script.unlink()


def _tool(name: str, *arguments: str) -> None:
    """Run one of e2fsprogs' programs with its clock held still."""
    environment = {
        "E2FSPROGS_FAKE_TIME": _EPOCH,
        "SOURCE_DATE_EPOCH": _EPOCH,
        "MKE2FS_CONFIG": "/dev/null",
        "LC_ALL": "C",
    }
    run_tool([find_tool(name) or name, *arguments], limit_s=_TOOL_LIMIT_S, environment=environment)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read(place: Path) -> Image | None:
    """The image in a directory; None where it is none, or not whole."""
    try:
        manifest = json.loads((place / MANIFEST).read_text("utf-8"))
        digest = str(manifest["digest"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    image = Image(place, digest)
    return image if all(path.is_file() for path in (image.kernel, image.initramfs, image.root)) else None


def _point(link: Path, name: str) -> None:
    """Make the link point there, at once and for everybody."""
    fresh = link.with_name(f".{link.name}-{os.getpid()}")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(name)
    fresh.replace(link)
