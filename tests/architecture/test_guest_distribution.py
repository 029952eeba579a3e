"""The guest's own distribution carries what the guest imports, and its unit and page fit the command."""

from __future__ import annotations

import argparse
import ast
import re
import shlex
import sys
import tomllib
from pathlib import Path

from app.guest.options import add_run_options, read_run_options

ROOT = Path(__file__).resolve().parents[2]


def module_file(name: str) -> Path | None:
    path = ROOT.joinpath(*name.split("."))
    for candidate in (path.with_suffix(".py"), path / "__init__.py"):
        if candidate.exists():
            return candidate
    return None


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return names


def closure() -> tuple[set[Path], set[str]]:
    """Files of ours that the guest needs, and libraries of others."""
    waiting = [*ROOT.glob("app/guest/*.py")]
    files: set[Path] = set()
    libraries: set[str] = set()
    while waiting:
        path = waiting.pop()
        if path in files:
            continue
        files.add(path)
        for name in imported(path):
            top = name.partition(".")[0]
            found = module_file(name) if top == "app" else None
            if found is not None:
                waiting.append(found)
            elif top not in sys.stdlib_module_names:
                libraries.add(top)
    return files, libraries


def project() -> dict[str, object]:
    return tomllib.loads((ROOT / "guest/pyproject.toml").read_text())


def test_the_distribution_has_every_module_that_the_guest_imports() -> None:
    document = project()
    include = document["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]  # type: ignore[index]
    sources = {(ROOT / "guest" / name).resolve() for name in include}
    assert all(source.exists() for source in sources)
    missing = [
        path
        for path in closure()[0] | {ROOT / "app/protocols/__init__.py", ROOT / "app/__init__.py"}
        if path not in sources and path.parent not in sources
    ]
    assert missing == []
    assert all((ROOT / "guest" / name).resolve() == ROOT / there for name, there in include.items())


def test_the_distribution_has_no_module_that_the_guest_does_not_import() -> None:
    include = project()["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]  # type: ignore[index]
    modules = {ROOT / there for there in include.values() if there.startswith("app/protocols/")}
    assert modules - closure()[0] == {ROOT / "app/protocols/__init__.py"}


def test_the_guest_needs_two_libraries_of_the_versions_that_the_whole_has() -> None:
    needed = project()["project"]["dependencies"]  # type: ignore[index]
    whole = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(needed) <= set(whole["dependencies"])
    assert {re.split(r"[<>=]", text)[0] for text in needed} == closure()[1] == {"h11", "wsproto"}
    assert project()["project"]["version"] == whole["version"]  # type: ignore[index]


def read_options(text: str) -> None:
    parser = argparse.ArgumentParser()
    add_run_options(parser)
    read_run_options(parser.parse_args(shlex.split(text)))


def test_the_unit_starts_the_command_with_options_that_it_has() -> None:
    unit = (ROOT / "compose/vmscaler-guest.service").read_text()
    assert re.search(r"^ExecStart=\S+/vmscaler guest run \$VMSCALER_GUEST_OPTIONS$", unit, re.MULTILINE)
    default = re.search(r'^Environment="VMSCALER_GUEST_OPTIONS=(.*)"$', unit, re.MULTILINE)
    assert default is not None
    read_options(default[1])


def test_the_unit_sets_no_limit_that_makes_allocations_wait_or_fail() -> None:
    unit = (ROOT / "compose/vmscaler-guest.service").read_text()
    assert not re.search(r"^(Memory(Max|High|SwapMax)|Limit(AS|DATA|RSS)|TasksMax)=", unit, re.MULTILINE)


def test_the_page_names_every_option_and_no_other() -> None:
    page = (ROOT / "docs/guest.md").read_text()
    parser = argparse.ArgumentParser(add_help=False)
    add_run_options(parser)
    known = {option for action in parser._actions for option in action.option_strings}
    named = set(re.findall(r"--[a-z][a-z-]+", page)) - {"--wheel-dir", "--no-index", "--find-links", "--now"}
    assert named == known
    example = re.search(r'^VMSCALER_GUEST_OPTIONS="(.*)"$', page, re.MULTILINE)
    assert example is not None
    read_options(example[1])
