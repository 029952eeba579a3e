"""The documents tell the truth about the tree: modules, files and settings that they name exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from app.config.reference import reference_page

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md")])

_MODULE = re.compile(r"`((?:app|workers)(?:\.[a-z_0-9]+)+)`")
_FILE = re.compile(r"`((?:app|workers|tests|docs|compose)/[A-Za-z0-9_./-]+)`")
_TEST = re.compile(r"`(test_[a-z0-9_]+)`")
_LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


def exists_as_module(dotted: str) -> bool:
    """Whether it is a module or package, or a name defined in one."""
    parts = dotted.split(".")
    whole = ROOT.joinpath(*parts)
    if whole.is_dir() or whole.with_suffix(".py").exists():
        return True
    parent = ROOT.joinpath(*parts[:-1])
    file = parent / "__init__.py" if parent.is_dir() else parent.with_suffix(".py")
    return file.exists() and re.search(rf"\b{parts[-1]}\b", file.read_text()) is not None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_names_only_modules_that_exist(page: Path) -> None:
    assert [name for name in _MODULE.findall(page.read_text()) if not exists_as_module(name)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_names_only_files_that_exist(page: Path) -> None:
    assert [name for name in _FILE.findall(page.read_text()) if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_links_only_to_pages_that_exist(page: Path) -> None:
    assert [link for link in _LINK.findall(page.read_text()) if not (page.parent / link).exists()] == []


def test_the_reference_of_settings_is_what_the_models_say() -> None:
    page = (ROOT / "docs/configuration.md").read_text()
    assert page == reference_page(), "run: vmscaler config reference > docs/configuration.md"


def test_pages_name_only_tests_that_exist() -> None:
    code = "\n".join(path.read_text() for path in ROOT.glob("tests/**/test_*.py"))
    named = {name for page in PAGES for name in _TEST.findall(page.read_text())}
    assert named, "docs/leases.md names the tests that show what it says"
    assert sorted(name for name in named if f"def {name}(" not in code) == []
