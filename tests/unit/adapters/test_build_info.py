"""Which revision a build says it is of: of a checkout, a second working tree, an image, or none."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from app import __version__
from app.adapters.build_info import REVISION_VARIABLE, UNKNOWN, build_info, git_revision

COMMIT = "4f92449fb2c61805eb05fc24473dfef15c0ac443"


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv(REVISION_VARIABLE, raising=False)
    (tmp_path / ".git").mkdir()
    return tmp_path


def test_a_detached_head_is_the_revision(checkout: Path) -> None:
    (checkout / ".git" / "HEAD").write_text(COMMIT + "\n")
    assert git_revision(checkout) == COMMIT


def test_a_branch_is_looked_up_loose_or_packed(checkout: Path) -> None:
    git = checkout / ".git"
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    (git / "packed-refs").write_text(f"# pack-refs with: peeled\n{COMMIT} refs/heads/main\n")
    assert git_revision(checkout) == COMMIT
    (git / "refs" / "heads").mkdir(parents=True)
    (git / "refs" / "heads" / "main").write_text("a" * 40 + "\n")
    assert git_revision(checkout) == "a" * 40


def test_a_second_working_tree_says_where_its_files_are(checkout: Path, tmp_path: Path) -> None:
    git = checkout / ".git"
    (git / "packed-refs").write_text(f"{COMMIT} refs/heads/topic\n")
    own = git / "worktrees" / "second"
    own.mkdir(parents=True)
    (own / "HEAD").write_text("ref: refs/heads/topic\n")
    (own / "commondir").write_text("../..\n")
    second = tmp_path / "second"
    second.mkdir()
    (second / ".git").write_text(f"gitdir: {own}\n")
    assert git_revision(second) == COMMIT


@pytest.mark.parametrize(
    "head", ["", "ref: refs/heads/none\n", "../../etc/passwd", "\x00\x01", "ref: ../../HEAD"]
)
def test_what_is_no_revision_is_unknown(checkout: Path, head: str) -> None:
    (checkout / ".git" / "HEAD").write_text(head)
    assert git_revision(checkout) == UNKNOWN


def test_without_a_checkout_the_images_word_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(REVISION_VARIABLE, COMMIT.upper())
    assert git_revision(tmp_path) == COMMIT
    monkeypatch.setenv(REVISION_VARIABLE, "unknown")
    assert git_revision(tmp_path) == UNKNOWN


def test_the_build_names_version_and_python() -> None:
    told = build_info()
    assert set(told) == {"version", "gitRevision", "pythonVersion"}
    assert (told["version"], told["pythonVersion"]) == (__version__, platform.python_version())
