"""docs/kubernetes.md: its overlay can be built, its table of rights is that of the manifests."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import yaml

from tests.manifest_rights import account_of
from tests.manifests import Deployed, container_of, copy_with_secrets, ours, settings_of

PAGE = Path(__file__).parents[2] / "docs" / "kubernetes.md"


def rows_below(heading: str) -> list[list[str]]:
    """The cells of the table below a heading."""
    section = PAGE.read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


def test_the_overlay_of_the_page_is_one_that_can_be_built(tmp_path: Path) -> None:
    text = re.search(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert text is not None
    kubernetes = copy_with_secrets(tmp_path)
    mine = kubernetes / "overlays" / "mine"
    mine.mkdir()
    (mine / "kustomization.yaml").write_text(text[1])
    shutil.copy(kubernetes / "base" / "vmscaler.yaml", mine)
    assert yaml.safe_load(text[1])["kind"] == "Kustomization"
    deployed = Deployed(kubernetes, "mine")
    images = {container_of(each)["image"] for each in ours(deployed).values()}
    assert images == {"registry.example.com/vmscaler:0.1.0"}
    assert deployed.workload("worker")["spec"]["replicas"] == 3
    assert settings_of(deployed, "worker", tmp_path).platform.kind == "neonvm"


def test_the_table_of_rights_is_what_is_granted(kubernetes: Path) -> None:
    granted = account_of(Deployed(kubernetes, "free-with-all"), "vmscaler-worker").granted
    told = set()
    for resource, where, verbs, _ in rows_below("Rights"):
        name, _, group = resource.strip("`").partition(".")
        place = "*" if where == "all namespaces" else where
        told |= {(place, group, name, verb) for verb in verbs.split(", ")}
    assert told == granted


def test_the_table_of_directories_names_all_of_them(kubernetes: Path) -> None:
    text = PAGE.read_text().partition("\n## Deploy")[0]
    kept = {path.parent.relative_to(kubernetes) for path in kubernetes.glob("*/**/kustomization.yaml")}
    there = {str(path) for path in kept if not path.name.endswith("-with-all")}
    assert set(re.findall(r"^\| `([a-z/-]+)` \|", text, re.MULTILINE)) == there
