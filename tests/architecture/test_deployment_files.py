"""The Procfile and compose/: their commands exist, and what they promise about users, ports and health holds.

No container engine is at hand where this runs; the shape of compose.yaml is checked against the part of the
Compose Specification that it uses.
"""

from __future__ import annotations

import hashlib
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import jsonschema
import pytest
import yaml
from celery.bin.celery import celery as celery_group

from app.cli.root import root
from app.config.flower_section import FlowerSettings
from app.config.loading import load_settings
from app.guest.main import listen_address

ROOT = Path(__file__).parents[2]
PROCESSES = {"worker", "beat", "flower", "scheduler", "sim"}

_TEXTS = {"type": "array", "items": {"type": "string"}, "minItems": 1}
_DURATION = {"type": "string", "pattern": "^([0-9]+(us|ms|s|m|h))+$"}
_HEALTH = {
    "type": "object",
    "additionalProperties": False,
    "required": ["test"],
    "properties": {
        "test": _TEXTS,
        "interval": _DURATION,
        "timeout": _DURATION,
        "start_period": _DURATION,
        "retries": {"type": "integer", "minimum": 1},
    },
}
_DEPENDENCY = {
    "type": "object",
    "additionalProperties": False,
    "required": ["condition"],
    "properties": {"condition": {"enum": ["service_started", "service_healthy"]}},
}
_SERVICE = {
    "type": "object",
    "additionalProperties": False,
    "required": ["image", "command", "network_mode", "restart"],
    "properties": {
        "image": {"type": "string", "pattern": "^[a-z0-9./-]+:[a-z0-9.-]+$"},
        "build": {
            "type": "object",
            "additionalProperties": False,
            "properties": {"context": {"type": "string"}, "dockerfile": {"type": "string"}},
        },
        "command": _TEXTS,
        "network_mode": {"type": "string", "pattern": "^(bridge|service:[a-z0-9]+)$"},
        "restart": {"enum": ["unless-stopped"]},
        "init": {"type": "boolean"},
        "read_only": {"type": "boolean"},
        "tmpfs": _TEXTS,
        "cap_drop": _TEXTS,
        "security_opt": _TEXTS,
        "stop_grace_period": _DURATION,
        "ports": _TEXTS,
        "volumes": _TEXTS,
        "secrets": _TEXTS,
        "environment": {"type": "object", "additionalProperties": {"type": "string"}},
        "depends_on": {"type": "object", "additionalProperties": _DEPENDENCY},
        "healthcheck": _HEALTH,
    },
}
COMPOSE_SHAPE = {
    "type": "object",
    "additionalProperties": False,
    "patternProperties": {"^x-": {}},
    "required": ["services"],
    "properties": {
        "name": {"type": "string", "pattern": "^[a-z0-9][a-z0-9_-]*$"},
        "services": {
            "type": "object",
            "additionalProperties": False,
            "patternProperties": {"^[a-zA-Z0-9._-]+$": _SERVICE},
        },
        "volumes": {"type": "object"},
        "secrets": {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "additionalProperties": False,
                "required": ["file"],
                "properties": {"file": {"type": "string"}},
            },
        },
    },
}


def procfile() -> dict[str, list[str]]:
    """Each process' command, defaults put in for the shell's variables, without the wrapper."""
    commands = {}
    for line in (ROOT / "Procfile").read_text().splitlines():
        if line and not line.startswith("#"):
            name, _, command = line.partition(": ")
            words = shlex.split(re.sub(r"\$\{\w+:-(?:\$\{\w+:-)?([^}]*)\}+", r"\1", command))
            # Without exec a runner's signal ends a shell, and leaves the command running.
            assert words[:2] == ["exec", "compose/run"]
            commands[name] = words[2:]
    return commands


def compose() -> dict[str, dict[str, object]]:
    document = yaml.safe_load((ROOT / "compose" / "compose.yaml").read_text())
    jsonschema.validate(document, COMPOSE_SHAPE)
    services: dict[str, dict[str, object]] = document["services"]
    return services


def all_commands() -> Iterator[list[str]]:
    yield from procfile().values()
    for service in compose().values():
        command = service["command"]
        assert isinstance(command, list)
        if command[0] in ("vmscaler", "celery"):
            yield command


def options_of(command: click.Command) -> set[str]:
    return {name for parameter in command.params for name in parameter.opts}


@pytest.mark.parametrize("command", list(all_commands()), ids=" ".join)
def test_each_command_exists_with_its_options(command: list[str]) -> None:
    program, *arguments = command
    context = click.Context(root)
    match program, arguments:
        case "vmscaler", ["guest", "metrics", "--listen", address]:
            assert listen_address(address)[1] > 0
        case "vmscaler", [name, *rest]:
            found = root.get_command(context, name)
            assert found is not None
            found.make_context(name, rest)
        case "celery", ["-A", "workers", name, *rest]:
            found = celery_group.get_command(context, name)
            assert found is not None
            flags = {word.partition("=")[0] for word in rest if word.startswith("-")}
            assert flags <= options_of(found) | {"--address", "--port"}
        case _:
            pytest.fail(f"an unknown program: {program}")


def test_the_procfile_has_the_processes_of_the_fleet() -> None:
    assert procfile().keys() >= PROCESSES


def test_compose_has_the_processes_of_the_fleet_and_redis() -> None:
    assert {name.rstrip("12") for name in compose()} == PROCESSES | {"redis", "pod", "prometheus", "grafana"}


def test_every_service_depends_on_services_that_exist_and_are_checked() -> None:
    services = compose()
    for service in services.values():
        depends_on = service.get("depends_on", {})
        assert isinstance(depends_on, dict)
        for name, how in depends_on.items():
            assert name in services
            assert how["condition"] == "service_started" or "healthcheck" in services[name]


def test_every_service_that_does_something_is_checked_for_health() -> None:
    assert [name for name, service in compose().items() if "healthcheck" not in service] == ["pod"]


def test_only_loopback_ports_of_the_host_are_published() -> None:
    published = [port for service in compose().values() for port in service.get("ports", [])]  # type: ignore[attr-defined]
    assert published == ["127.0.0.1:5555:5555", "127.0.0.1:3000:3000"]


def test_our_containers_can_change_nothing_but_their_volumes() -> None:
    ours = [service for service in compose().values() if str(service["image"]).startswith("vmscaler:")]
    assert len(ours) == 7
    assert all(service["read_only"] and service["cap_drop"] == ["ALL"] for service in ours)


def test_the_image_runs_as_an_ordinary_user_from_locked_versions() -> None:
    lines = (ROOT / "compose" / "Dockerfile").read_text().splitlines()
    stages = [index for index, line in enumerate(lines) if line.startswith("FROM ")]
    assert len(stages) == 2
    users = [line.split()[1] for line in lines[stages[1] :] if line.startswith("USER ")]
    assert users
    assert int(users[-1].partition(":")[0]) >= 1000
    assert any("--require-hashes" in line and "requirements.lock" in line for line in lines)
    assert not any("pip" in line for line in lines[stages[1] :])


def test_what_the_image_copies_is_there_and_not_ignored() -> None:
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    for line in (ROOT / "compose" / "Dockerfile").read_text().splitlines():
        if line.startswith("COPY ") and "--from" not in line:
            for source in line.split()[1:-1]:
                assert (ROOT / source).exists()
                assert source.split("/")[0] in kept


def test_the_example_configuration_is_valid_and_fits_the_commands() -> None:
    settings = load_settings(str(ROOT / "compose" / "vmscaler.example.yaml"), {})
    assert settings.platform.kind == "sim"
    assert [node.name for node in settings.node_scheduler.nodes] == ["sim-node-1", "sim-node-2"]


def test_each_service_logs_into_redis_as_the_user_of_its_role(tmp_path: Path) -> None:
    document = yaml.safe_load((ROOT / "compose" / "compose.yaml").read_text())
    made = subprocess.run(
        [ROOT / "compose" / "make-secrets", tmp_path], capture_output=True, text=True, check=True
    )
    assert {name: {"file": f"secrets/{name}"} for name in document["secrets"]} == document["secrets"]
    assert {path.name for path in tmp_path.iterdir()} >= document["secrets"].keys()
    for name, service in document["services"].items():
        assert set(service.get("secrets", [])) <= document["secrets"].keys()
        environment = service.get("environment")
        if environment is None or name == "grafana":
            continue
        role = name.rstrip("12")
        settings = load_settings(str(ROOT / "compose" / "vmscaler.example.yaml"), environment)
        assert settings.redis.url.parts.username == role
        assert settings.redis.password_file == f"/run/secrets/redis-{role}"
        assert f"redis-{role}" in service["secrets"]
    assert "redis-worker" not in made.stdout


def test_secrets_are_made_once_and_redis_knows_them_by_their_hashes_only(tmp_path: Path) -> None:
    target = tmp_path / "secrets"
    for _ in range(2):
        subprocess.run([ROOT / "compose" / "make-secrets", target], capture_output=True, check=True)
    password = (target / "redis-worker").read_text().strip()
    users = (target / "redis-users").read_text()
    (target / "redis-beat").unlink()
    subprocess.run([ROOT / "compose" / "make-secrets", target], capture_output=True, check=True)
    again = (target / "redis-users").read_text()
    assert len(password) == 48
    assert password not in users
    assert hashlib.sha256(password.encode()).hexdigest() in users
    changed = [
        old.split()[1] for old, new in zip(users.splitlines(), again.splitlines(), strict=True) if old != new
    ]
    assert changed == ["beat"]
    assert target.stat().st_mode & 0o777 == 0o700
    assert FlowerSettings.model_validate({"authFile": str(target / "flower-logins")}).logins()
