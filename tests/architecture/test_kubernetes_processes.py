"""compose/kubernetes: its settings, variables, commands, ports and pages are those that our programs have."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path

import click
import yaml
from celery.bin.celery import celery as celery_group
from flower.urls import handlers as flower_pages

from app import __version__
from app.config import Settings
from app.config.environment import OVERRIDES
from app.config.loading import build_settings
from app.services.progress import Progress, ProgressLimits
from app.web.health import add_health_page
from app.web.ready import add_ready_page
from app.web.worker import WorkerApplication
from tests.manifests import (
    DOWNWARD,
    Deployed,
    container_of,
    files_of,
    ours,
    pod_of,
    settings_of,
)
from workers.beat_health import BeatHealth

READ = {"CONFIG_PATH", "K8S_NODE_NAME", "K8S_POD_IP", "VMSCALER_STATS_SECRET", *OVERRIDES}
"""Variables that our processes read."""


def test_each_process_reads_a_configuration_that_is_right_and_logs_in_as_its_role(
    deployed: Deployed, tmp_path: Path
) -> None:
    is_node_bound = deployed.overlay.startswith("node-bound")
    assert set(ours(deployed)) == {"worker", "beat"} | (set() if is_node_bound else {"flower"})
    users = deployed.data("Secret", "vmscaler-redis-users")["users.acl"]
    for component, workload in ours(deployed).items():
        settings = settings_of(deployed, component, tmp_path)
        assert settings.platform.kind == "neonvm"
        assert settings.redis.url.parts.username == component
        assert settings.redis.url.parts.hostname in {
            each["metadata"]["name"] for each in deployed.of("Service")
        }
        files = {path: text for path, text, kind in files_of(deployed, workload) if kind == "Secret"}
        assert settings.redis.password_file is not None
        digest = hashlib.sha256(files[settings.redis.password_file].strip().encode()).hexdigest()
        (user,) = (line for line in users.splitlines() if line.endswith(f"#{digest}"))
        assert user.startswith(f"user {component} on ")
        assert set(files) == {settings.redis.password_file, *filter(None, [settings.flower.auth_file])}


def test_each_variable_is_one_that_is_read(deployed: Deployed) -> None:
    for component, workload in ours(deployed).items():
        container = container_of(workload)
        in_arguments = set(re.findall(r"\$\((\w+)\)", " ".join(container["args"])))
        given = {each["name"] for each in container["env"]}
        assert in_arguments <= given
        assert given - in_arguments <= READ
        assert "K8S_POD_IP" in given, component
        # Else Kubernetes puts in variables named after Services, such as VMSCALER_REDIS_PORT.
        assert pod_of(workload)["enableServiceLinks"] is False


def test_each_command_exists_with_its_options(deployed: Deployed) -> None:
    for component, workload in ours(deployed).items():
        program, option, application, name, *rest = container_of(workload)["args"]
        assert (program, option, application, name) == ("celery", "-A", "workers", component)
        command = celery_group.get_command(click.Context(click.Command("celery")), name)
        known = {each for parameter in command.params for each in parameter.opts} | {"--address", "--port"}
        assert {word.partition("=")[0] for word in rest if word.startswith("-")} <= known


def test_ports_are_those_of_the_configuration(deployed: Deployed, tmp_path: Path) -> None:
    worker = settings_of(deployed, "worker", tmp_path)
    assert worker.dump_state is not None
    expected = {
        "worker": {"web": worker.web.port, "dump": worker.dump_state.port},
        "beat": {"web": worker.web.port},
        "flower": {"flower": 5555},
    }
    assert worker.web.add_worker_number is False
    assert worker.web.host == "0.0.0.0"
    for component, workload in ours(deployed).items():
        container = container_of(workload)
        assert {each["name"]: each["containerPort"] for each in container["ports"]} == expected[component]
        notes = workload["spec"]["template"]["metadata"].get("annotations", {})
        assert notes.get("prometheus.io/port", str(worker.web.port)) == str(worker.web.port)
    if "flower" in ours(deployed):
        assert "--port=5555" in container_of(deployed.workload("flower"))["args"]


def pages_of(component: str, settings: Settings) -> Callable[[str], bool]:
    """Whether a process of that component has a page."""
    if component == "flower":
        paths = {spec[0] for spec in flower_pages if isinstance(spec, tuple)}
        return lambda path: path in paths
    if component == "beat":
        application = BeatHealth(settings).application
    else:
        application = WorkerApplication()
        add_health_page(application, Progress(ProgressLimits(15, 20), Nothing(), list))
        add_ready_page(application, list)

    def has(path: str) -> bool:
        said: list[str] = []
        application(
            {"PATH_INFO": path, "REQUEST_METHOD": "GET"},
            lambda status, headers: said.append(status),  # type: ignore[arg-type]
        )
        return not said[0].startswith("404")

    return has


class Nothing:
    """Queues in which nothing waits."""

    def waiting(self, names: object) -> int:
        return 0


def test_probes_ask_for_pages_that_the_process_has(deployed: Deployed, tmp_path: Path) -> None:
    for component, workload in ours(deployed).items():
        container = container_of(workload)
        has = pages_of(component, settings_of(deployed, component, tmp_path))
        assert not has("/no-such-page")
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            asked = container[probe]["httpGet"]
            assert has(asked["path"])
            assert asked["port"] == container["ports"][0]["name"]
        if component != "flower":
            assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
            assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"


def test_a_pod_has_time_to_hand_over_and_its_successor_is_there_before(
    deployed: Deployed, tmp_path: Path
) -> None:
    for component, workload in ours(deployed).items():
        grace = settings_of(deployed, component, tmp_path).shutdown.grace_period_seconds
        assert pod_of(workload)["terminationGracePeriodSeconds"] >= grace + 5
    for component in ("worker", "beat"):
        spec = deployed.workload(component)["spec"]
        rolling = spec.get("strategy", spec.get("updateStrategy"))["rollingUpdate"]
        assert rolling["maxUnavailable"] == 0


def test_the_image_has_one_name_everywhere(deployed: Deployed) -> None:
    compose = yaml.safe_load((Path(__file__).parents[2] / "compose" / "compose.yaml").read_text())
    names = {container_of(each)["image"] for each in ours(deployed).values()}
    assert names == {f"vmscaler:{__version__}"} == {compose["x-vmscaler"]["image"]}
    assert container_of(deployed.workload("redis"))["image"] == compose["services"]["redis"]["image"]


def test_node_bound_is_one_worker_and_one_beat_for_each_node(kubernetes: Path, tmp_path: Path) -> None:
    deployed = Deployed(kubernetes, "node-bound")
    assert {each["metadata"]["name"] for each in deployed.of("DaemonSet")} == {
        "vmscaler-worker",
        "vmscaler-beat",
    }
    assert deployed.of("Deployment", "PodDisruptionBudget") == []
    for component in ("worker", "beat"):
        settings = settings_of(deployed, component, tmp_path)
        assert settings.platform.node_bound
        assert settings.key_prefix == f"vmscaler:{DOWNWARD['spec.nodeName']}"
    assert "flower" not in json.dumps([each["metadata"] for each in deployed.manifests])


def test_observe_watches_the_vms_of_the_other_agent(kubernetes: Path, tmp_path: Path) -> None:
    platform = settings_of(Deployed(kubernetes, "observe"), "worker", tmp_path).platform
    assert (platform.observe_label, platform.enabled_label) == (
        "autoscaling.neon.tech/enabled",
        "vmscaler/enabled",
    )
    free = settings_of(Deployed(kubernetes, "free"), "worker", tmp_path).platform
    assert (free.observe_label, free.enabled_label) == (None, "autoscaling.neon.tech/enabled")


def test_configurations_differ_in_what_they_say_they_do_alone(kubernetes: Path, tmp_path: Path) -> None:
    plain = settings_of(Deployed(kubernetes, "free"), "worker", tmp_path).model_dump(
        exclude={"sources", "env"}
    )
    for overlay, places in (
        ("node-bound", {("platform", "node_bound"), ("ownership", "buckets")}),
        ("observe", {("platform", "enabled_label"), ("platform", "observe_label")}),
    ):
        other = settings_of(Deployed(kubernetes, overlay), "worker", tmp_path).model_dump(
            exclude={"sources", "env"}
        )
        found = {
            (section, name)
            for section, values in plain.items()
            for name in (values if isinstance(values, dict) else ())
            if values[name] != other[section][name]
        }
        assert found == places


def test_components_switch_on_what_they_are_for(deployed: Deployed, tmp_path: Path) -> None:
    settings = settings_of(deployed, "worker", tmp_path)
    has_all = deployed.overlay.endswith("-with-all")
    assert settings.ownership.leases == ("kubernetes" if has_all else "redis")
    assert settings.kubernetes.lease_namespace is None, "the Role is in the workers' own namespace"
    assert bool(settings.env.stats_secret) == has_all
    if has_all:
        on = build_settings(
            {"stats": {"enabled": True}}, {"VMSCALER_STATS_SECRET": settings.env.stats_secret or ""}
        )
        assert on.stats.secret(on.env.stats_secret)
