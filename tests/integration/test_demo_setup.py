from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.cli.demo_setup import (
    MAX_SOCKET_PATH,
    DemoSetup,
    clean_environment,
    make_directory,
    prepare,
    process_specs,
    redis_spec,
)
from app.config.loading import load_settings


@pytest.fixture
def setup(tmp_path: Path) -> Iterator[DemoSetup]:
    short = make_directory({})
    setup = prepare(
        24, {"XDG_RUNTIME_DIR": str(short), "PATH": "/bin", "VMSCALER_REDIS_URL": "redis://other"}
    )
    yield setup
    for port in (setup.ports.flower, setup.ports.control, setup.ports.metrics):
        port.close()
    shutil.rmtree(short)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_everything_is_beneath_a_directory_that_only_its_user_can_enter(setup: DemoSetup) -> None:
    assert mode(setup.directory) == 0o700
    assert mode(setup.directory / "config.json") == 0o600
    assert mode(setup.directory / "sim.token") == 0o600
    assert len(os.fsencode(setup.redis_socket)) <= MAX_SOCKET_PATH


def test_the_written_configuration_is_valid_and_short_timed(setup: DemoSetup) -> None:
    settings = load_settings(None, setup.environment)
    own = settings.ownership
    assert (own.buckets, own.lease_duration_seconds, own.renew_every_seconds) == (16, 3.0, 0.5)
    assert own.give_up_after_seconds == 2.0
    assert settings.metrics.seconds_between_requests == 2.0
    assert settings.redis.url.reveal() == f"unix://{setup.redis_socket}"
    assert settings.platform.token() == (setup.directory / "sim.token").read_text()
    assert [node.name for node in settings.node_scheduler.nodes] == ["sim-node-1", "sim-node-2"]


def test_the_nodes_hold_less_than_all_vms_could_want(setup: DemoSetup) -> None:
    nodes = load_settings(None, setup.environment).node_scheduler.nodes
    assert sum(node.milli_cpu for node in nodes) < 24 * 4000


def test_no_secret_is_in_arguments_or_environment(setup: DemoSetup) -> None:
    secret = (setup.directory / "sim.token").read_text()
    assert len(secret) >= 32
    specs = [redis_spec(setup, Path("/bin/redis-server")), *process_specs(setup)]
    for spec in specs:
        assert secret not in " ".join([*spec.argv, *spec.environment.values()])
    assert secret not in (setup.directory / "config.json").read_text()


def test_all_processes_of_the_fleet_are_there_and_redis_is_stopped_last(setup: DemoSetup) -> None:
    redis = redis_spec(setup, Path("/bin/redis-server"))
    specs = process_specs(setup)
    assert {spec.name for spec in specs} == {
        *("sim", "metrics", "scheduler", "worker1", "worker2", "beat", "flower"),
    }
    waves = {spec.name: spec.stop_wave for spec in specs}
    assert waves["worker1"] == waves["worker2"] == min(waves.values())
    assert redis.stop_wave > max(waves.values())
    assert len({spec.log for spec in (redis, *specs)}) == len(specs) + 1


def test_flower_listens_on_loopback_and_shows_nothing_to_strangers(setup: DemoSetup) -> None:
    (flower,) = [spec for spec in process_specs(setup) if spec.name == "flower"]
    assert "--address=127.0.0.1" in flower.argv
    assert not any("unauthenticated" in word.lower() for word in [*flower.argv, *flower.environment])
    assert setup.flower_url == f"http://127.0.0.1:{setup.ports.flower.number}"


def test_what_configures_another_vmscaler_does_not_reach_the_demo() -> None:
    environ = {
        "PATH": "/bin",
        "HOME": "/home/me",
        "CONFIG_PATH": "/etc/vmscaler.yaml",
        "VMSCALER_REDIS_URL": "redis://production",
        "CELERY_BROKER_URL": "redis://production",
        "FLOWER_UNAUTHENTICATED_API": "1",
        "K8S_POD_IP": "10.0.0.1",
        "DEMO_SECONDS": "90",
    }
    assert clean_environment(environ) == {"PATH": "/bin", "HOME": "/home/me"}


def test_two_demos_share_neither_directory_nor_port(setup: DemoSetup) -> None:
    other = prepare(24, {"XDG_RUNTIME_DIR": str(setup.directory.parent)})
    ports = [other.ports.flower, other.ports.control, other.ports.metrics]
    numbers = {port.number for port in [*ports, setup.ports.flower, setup.ports.control, setup.ports.metrics]}
    for port in ports:
        port.close()
    assert other.directory != setup.directory
    assert len(numbers) == 6


def test_a_runtime_directory_whose_path_is_too_long_for_a_socket_is_passed_over(tmp_path: Path) -> None:
    long = tmp_path / ("x" * 100)
    long.mkdir()
    directory = make_directory({"XDG_RUNTIME_DIR": str(long)})
    assert directory.parent != long
    assert list(long.iterdir()) == []
    directory.rmdir()


def test_a_runtime_directory_that_does_not_exist_is_passed_over() -> None:
    directory = make_directory({"XDG_RUNTIME_DIR": "/no/such/directory"})
    assert mode(directory) == 0o700
    directory.rmdir()


def test_the_configuration_names_its_place_as_json(setup: DemoSetup) -> None:
    path = Path(setup.environment["CONFIG_PATH"])
    assert path.parent == setup.directory
    assert isinstance(json.loads(path.read_text()), dict)
