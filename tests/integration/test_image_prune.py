"""`vmscaler image prune`: what nothing needs goes, all else stays."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from app.adapters.image_prune import ABANDONED_AFTER_S, find_unneeded
from app.cli.image import image_group
from app.errors import InvalidInput


def make_image(images: Path, name: str, *packages: str) -> Path:
    place = images / name
    place.mkdir(parents=True)
    (place / "image.json").write_text(json.dumps({"digest": "d", "packages": dict.fromkeys(packages, "x")}))
    (place / "root.ext4").write_bytes(b"x" * 1000)
    return place


def make_vm(state: Path, name: str, image: Path) -> None:
    place = state / "vms" / name
    place.mkdir(parents=True)
    size = {"cpu": 1, "memory": "512Mi"}
    fields = {"name": name, "uid": "u", "node": "n", "min": size, "max": size, "slot": "128Mi"}
    (place / "vm.json").write_text(json.dumps({**fields, "image": str(image)}))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with three images, `c` the current one, `b` in use; and packages of all."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    images = tmp_path / "cache/vmscaler/images"
    for name in "abc":
        make_image(images, name, f"{name}.deb", "shared.deb")
    (images / "current").symlink_to("c")
    make_vm(tmp_path / "state/vmscaler", "vm", images / "b")
    packages = tmp_path / "cache/vmscaler/packages"
    packages.mkdir()
    for name in ("a.deb", "b.deb", "c.deb", "shared.deb"):
        (packages / name).write_bytes(b"x")
    return tmp_path


def prune(*words: str) -> Result:
    return CliRunner().invoke(image_group, ["prune", *words])


def left(home: Path, kind: str) -> list[str]:
    return sorted(path.name for path in (home / "cache/vmscaler" / kind).iterdir())


def test_images_that_no_vm_was_created_with_go_and_the_current_one_stays(home: Path) -> None:
    result = prune()
    assert result.exception is None
    assert "2 paths removed" in result.output
    assert left(home, "images") == ["b", "c", "current"]
    assert left(home, "packages") == ["b.deb", "c.deb", "shared.deb"]
    assert "0 paths removed" in prune().output


def test_a_dry_run_removes_nothing(home: Path) -> None:
    shown = json.loads(prune("--dry-run", "--json").output)
    assert shown["removed"] is False
    assert [Path(path).name for path in shown["paths"]] == ["a", "a.deb"]
    assert shown["bytes"] > 1000
    assert left(home, "images") == ["a", "b", "c", "current"]


def test_vms_of_another_state_directory_keep_their_images(home: Path, tmp_path: Path) -> None:
    make_vm(tmp_path / "other", "vm", home / "cache/vmscaler/images/a")
    assert "0 paths removed" in prune("--state", str(tmp_path / "other")).output


def test_a_vm_whose_description_can_t_be_read_keeps_all_images(home: Path) -> None:
    (home / "state/vmscaler/vms/vm/vm.json").write_text("{")
    assert isinstance(prune().exception, InvalidInput)
    assert left(home, "images") == ["a", "b", "c", "current"]


def test_only_builds_that_were_killed_long_ago_go(home: Path) -> None:
    images = home / "cache/vmscaler/images"
    for name, age_s in ((".building-old", ABANDONED_AFTER_S + 60), (".building-new", 60.0)):
        (images / name).mkdir()
        os.utime(images / name, (1e9 - age_s, 1e9 - age_s))
    found = find_unneeded(images, images / "none", [images / "a", images / "b"], now=1e9)
    assert [path.name for path in found.paths] == [".building-old"]


def test_what_is_no_image_stays(home: Path) -> None:
    images = home / "cache/vmscaler/images"
    (images / "mine").mkdir()
    (images / "note.txt").write_text("x")
    prune()
    assert {"mine", "note.txt"} <= set(left(home, "images"))


def test_no_image_at_all_is_nothing_to_do(tmp_path: Path) -> None:
    assert find_unneeded(tmp_path / "x", tmp_path / "y", [], now=0).paths == ()
