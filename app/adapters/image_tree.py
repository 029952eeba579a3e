"""The guest's root file system as a directory: packages unpacked, the daemon put in, everything else out."""

from __future__ import annotations

import ast
import importlib.util
import shutil
import tarfile
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

import app
from app.adapters.image_kernel import FILES
from app.adapters.image_packages import Package, open_package, run_tool
from app.errors import ConfigurationError

DAEMON = "usr/lib/vmscaler"
"""Where the daemon and its libraries are."""
LIBRARIES = ("h11", "wsproto")
"""Pure Python, taken from the interpreter that builds the image."""

_MERGED = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
"""Directories that are links into /usr, as on an installed Debian."""
_LEFT_OUT = (
    "usr/share/doc",
    "usr/share/man",
    "usr/share/locale",
    "usr/share/lintian",
    "usr/share/bug",
    "usr/share/applications",
    "usr/share/pixmaps",
    "usr/lib/python3/dist-packages",
    "usr/lib/x86_64-linux-gnu/gconv",
)
_LEFT_OUT_OF_PYTHON = (
    "test",
    "idlelib",
    "tkinter",
    "lib2to3",
    "ensurepip",
    "distutils",
    "pydoc_data",
    "turtledemo",
)
_EMPTY = ("proc", "sys", "dev", "run", "tmp", "root", "etc", "var")
_APPLETS = (
    "sh",
    "init",
    "mount",
    "mkdir",
    "cat",
    "hostname",
    "ip",
    "ls",
    "ps",
    "free",
    "nproc",
    "dmesg",
    "poweroff",
    "reboot",
    "kill",
    "top",
    "uptime",
    "grep",
    "sleep",
    "vi",
    "echo",
    "df",
)
_LIST_LIMIT_S = 10.0
_COMPILE_LIMIT_S = 300.0


def build_tree(packages: Iterable[Package], root: Path) -> None:
    """Fill the empty directory `root`.

    Raises:
        ConfigurationError: a package can't be unpacked, or Python in it does not run here.
    """
    for package in packages:
        with open_package(package) as archive:
            _unpack(archive, root)
    _add_system(root)
    _add_daemon(root / DAEMON)
    for name in _LEFT_OUT:
        shutil.rmtree(root / name, ignore_errors=True)
    for python in (root / "usr/lib").glob("python3.*"):
        for name in _LEFT_OUT_OF_PYTHON:
            shutil.rmtree(python / name, ignore_errors=True)
    _compile(root)


def guest_modules() -> dict[str, Path]:
    """The daemon's own modules, by path from `app` on: those of `app.guest` and what they import."""
    top = Path(next(iter(app.__path__)))
    waiting = sorted((top / "guest").glob("*.py"))
    found: dict[str, Path] = {}
    while waiting:
        path = waiting.pop()
        name = path.relative_to(top.parent).as_posix()
        if name in found:
            continue
        found[name] = path
        for module in _imports(path):
            place = top.parent.joinpath(*module.split("."))
            packages = (
                parent / "__init__.py" for parent in (place, *place.parents) if parent.is_relative_to(top)
            )
            waiting.extend(each for each in (place.with_suffix(".py"), *packages) if each.is_file())
    return found


def library_files() -> dict[str, Path]:
    """Python files of the daemon's libraries, by their path.

    Raises:
        ConfigurationError: one of them is not installed beside vmscaler.
    """
    found: dict[str, Path] = {}
    for name in LIBRARIES:
        spec = importlib.util.find_spec(name)
        if spec is None or not spec.submodule_search_locations:
            raise ConfigurationError([f"{name} is not installed; install vmscaler anew"], source="image")
        top = Path(next(iter(spec.submodule_search_locations)))
        found.update({path.relative_to(top.parent).as_posix(): path for path in sorted(top.rglob("*.py"))})
    return {name: path for name, path in found.items() if "/tests/" not in name}


def _imports(path: Path) -> set[str]:
    """Modules of ours that a file names, `from app.x import y` as `app.x` and `app.x.y`."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return {name for name in names if name.partition(".")[0] == "app"}


def _unpack(archive: tarfile.TarFile, root: Path) -> None:
    """Files, directories and links; no owners, no devices, nothing outside of `root`."""
    for member in archive:
        parts = PurePosixPath(member.name).parts
        if parts and parts[0] in _MERGED:
            parts = ("usr", *parts)
        path = "/".join(parts)
        if ".." in parts or path.startswith("/") or any(path.startswith(f"{name}/") for name in _LEFT_OUT):
            continue
        target = root / path
        if member.isdir():
            target.mkdir(parents=True, exist_ok=True)
        elif member.issym():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.unlink(missing_ok=True)
            target.symlink_to(member.linkname)
        elif member.isfile():
            file = archive.extractfile(member)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.unlink(missing_ok=True)
            target.write_bytes(b"" if file is None else file.read())
            target.chmod(0o755 if member.mode & 0o111 else 0o644)


def _add_system(root: Path) -> None:
    for name in _EMPTY:
        (root / name).mkdir(parents=True, exist_ok=True)
    for name in _MERGED:
        if (root / "usr" / name).is_dir():
            (root / name).symlink_to(f"usr/{name}")
    busybox = next(path for path in ("/usr/bin/busybox", "/bin/busybox") if (root / path[1:]).exists())
    known = set(run_tool([str(root / busybox[1:]), "--list"], limit_s=_LIST_LIMIT_S).split())
    if missing := sorted(set(_APPLETS) - known):
        raise ConfigurationError([f"this busybox has no {missing[0]}"], source="image")
    for name in _APPLETS:
        place = root / "usr" / ("sbin" if name in ("init", "poweroff", "reboot") else "bin") / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if not place.exists():
            place.symlink_to(busybox)
    if not (root / "sbin").is_symlink():
        (root / "sbin").symlink_to("usr/sbin")
    etc = root / "etc"
    (etc / "inittab").write_bytes((FILES / "inittab").read_bytes())
    (etc / "passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    (etc / "group").write_text("root:x:0:\n")
    (etc / "hosts").write_text("127.0.0.1 localhost\n")


def _add_daemon(place: Path) -> None:
    for name, source in {**guest_modules(), **library_files()}.items():
        target = place / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(source.read_bytes())
    for name in ("daemon", "system-init"):
        target = place / name
        target.write_bytes((FILES / f"{name}.sh").read_bytes())
        target.chmod(0o755)


def _compile(root: Path) -> None:
    """Compile all modules with the guest's own Python: without, its start takes seconds more each time.

    It runs here, through its own loader and with its own libraries; nothing needs to be root.
    """
    python = next(iter(sorted((root / "usr/bin").glob("python3.[0-9]*"))), None)
    loader = root / "usr/lib64/ld-linux-x86-64.so.2"
    if python is None or not loader.exists():
        raise ConfigurationError(["the packages brought no Python"], source="image")
    libraries = ":".join(str(root / name) for name in ("usr/lib/x86_64-linux-gnu", "usr/lib"))
    # Sorted, one process, hashes instead of times: the same files give the same bytes.
    options = ["-q", "-f", "-s", str(root), "-p", "/", "--invalidation-mode", "unchecked-hash"]
    interpreter = [str(loader), "--library-path", libraries, str(python), "-s", "-S"]
    places = [str(root / "usr/lib" / python.name), str(root / DAEMON)]
    environment = {"PYTHONHOME": str(root / "usr"), "PYTHONHASHSEED": "0", "LC_ALL": "C.UTF-8"}
    command = [*interpreter, "-m", "compileall", *options, *places]
    run_tool(command, limit_s=_COMPILE_LIMIT_S, environment=environment)
