"""The manifests of compose/kubernetes as they are deployed: built with secrets that are made for the test."""

from __future__ import annotations

import base64
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from app.config import Settings, load_settings
from tests.kustomization import Manifest, build

ROOT = Path(__file__).parents[1]
OVERLAYS = ("free", "node-bound", "observe")
COMPONENTS = ("leases", "bucket-services", "stats")
ALL_OVERLAYS = (*OVERLAYS, *(f"{name}-with-all" for name in OVERLAYS))
OURS = "app.kubernetes.io/component"

POD_IP = "10.1.2.3"
DOWNWARD = {
    "metadata.name": "vmscaler-worker-6d5f7c9b8-x2k24",
    "status.podIP": POD_IP,
    "spec.nodeName": "node-1",
}
"""What the downward API tells a pod of the tests."""


def copy_with_secrets(directory: Path) -> Path:
    """A copy of compose/kubernetes in which the secrets have been made; its overlays are built from there."""
    kubernetes = directory / "kubernetes"
    ignore = shutil.ignore_patterns("secrets", "secret")
    shutil.copytree(ROOT / "compose" / "kubernetes", kubernetes, ignore=ignore)
    made = [str(ROOT / "compose" / "make-secrets"), str(kubernetes / "base" / "secrets")]
    subprocess.run(made, check=True, capture_output=True, timeout=60)
    (kubernetes / "components" / "stats" / "secret").write_text("of-the-stats-in-tests\n")
    for name in OVERLAYS:
        whole = kubernetes / "overlays" / f"{name}-with-all"
        whole.mkdir()
        components = [f"../../components/{each}" for each in COMPONENTS]
        (whole / "kustomization.yaml").write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "kustomize.config.k8s.io/v1beta1",
                    "kind": "Kustomization",
                    "resources": [f"../{name}"],
                    "components": components,
                }
            )
        )
    return kubernetes


class Deployed:
    """All objects of one overlay."""

    def __init__(self, kubernetes: Path, overlay: str) -> None:
        self.overlay = overlay
        self.manifests: list[Manifest] = build(kubernetes / "overlays" / overlay)

    def of(self, *kinds: str) -> list[Manifest]:
        """The objects of some kinds."""
        return [each for each in self.manifests if each["kind"] in kinds]

    def workloads(self) -> list[Manifest]:
        """Whatever makes pods."""
        return self.of("Deployment", "DaemonSet", "StatefulSet")

    def workload(self, component: str) -> Manifest:
        """The one of a component: worker, beat, flower, redis."""
        (found,) = (each for each in self.workloads() if each["metadata"]["labels"][OURS] == component)
        return found

    def data(self, kind: str, name: str) -> dict[str, str]:
        """What is in a ConfigMap or a Secret, as text."""
        (found,) = (each for each in self.of(kind) if each["metadata"]["name"] == name)
        if kind == "ConfigMap":
            return dict(found["data"])
        return {key: base64.b64decode(value).decode() for key, value in found["data"].items()}


def pod_of(workload: Manifest) -> dict[str, Any]:
    """The specification of its pods."""
    return dict(workload["spec"]["template"]["spec"])


def container_of(workload: Manifest) -> dict[str, Any]:
    """Its only container."""
    (found,) = pod_of(workload)["containers"]
    return dict(found)


def labels_of(workload: Manifest) -> dict[str, str]:
    """The labels of its pods."""
    return dict(workload["spec"]["template"]["metadata"]["labels"])


def environment_of(deployed: Deployed, workload: Manifest) -> dict[str, str]:
    """What its container finds in the environment."""
    found = {}
    for each in container_of(workload).get("env", []):
        match each:
            case {"value": value}:
                found[each["name"]] = value
            case {"valueFrom": {"fieldRef": {"fieldPath": path}}}:
                found[each["name"]] = DOWNWARD[path]
            case {"valueFrom": {"secretKeyRef": {"name": name, "key": key}}}:
                found[each["name"]] = deployed.data("Secret", name)[key].strip()
    return found


def files_of(deployed: Deployed, workload: Manifest) -> Iterator[tuple[str, str, str]]:
    """(path, content, kind) of each file that a ConfigMap or Secret puts into its container."""
    volumes = {each["name"]: each for each in pod_of(workload)["volumes"]}
    for mount in container_of(workload)["volumeMounts"]:
        volume: dict[str, Any] = volumes.get(mount["name"], {})
        if "configMap" in volume:
            kind, rule, name = "ConfigMap", volume["configMap"], volume["configMap"]["name"]
        elif "secret" in volume:
            kind, rule, name = "Secret", volume["secret"], volume["secret"]["secretName"]
        else:
            continue
        data = deployed.data(kind, name)
        for item in rule.get("items") or [{"key": key, "path": key} for key in data]:
            yield f"{mount['mountPath']}/{item['path']}", data[item["key"]], kind


def ours(deployed: Deployed) -> dict[str, Manifest]:
    """Our own workloads, by component."""
    found = {each["metadata"]["labels"][OURS]: each for each in deployed.workloads()}
    return {name: each for name, each in found.items() if name != "redis"}


def settings_of(deployed: Deployed, component: str, directory: Path) -> Settings:
    """What a process of that component finds in force; the file goes to `directory`."""
    workload = deployed.workload(component)
    content = {path: text for path, text, _ in files_of(deployed, workload)}
    environment = environment_of(deployed, workload)
    file = directory / "vmscaler.yaml"
    file.write_text(content[environment["CONFIG_PATH"]])
    return load_settings(str(file), environment)
