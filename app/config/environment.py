"""What the environment may say: where the file is, who we are in a cluster, what stands in for the file."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field

OVERRIDES: Mapping[str, tuple[str, str]] = {
    "VMSCALER_REDIS_URL": ("redis", "url"),
    "VMSCALER_REDIS_PASSWORD_FILE": ("redis", "passwordFile"),
    "VMSCALER_FLOWER_AUTH_FILE": ("flower", "authFile"),
    "VMSCALER_LEASES": ("ownership", "leases"),
}
"""Variables that stand in for a value of the file, each with its section and field; an empty one does not."""


@dataclass(frozen=True, slots=True)
class EnvArgs:
    """The environment of an agent (`spec/agent.md`); an empty variable counts as missing.

    Attributes:
        config_path: `CONFIG_PATH`, the configuration file.
        node_name: `K8S_NODE_NAME`, the node that this process runs on.
        pod_ip: `K8S_POD_IP`, where others reach this process.
        stats_secret: `VMSCALER_STATS_SECRET`, of which VMs' tokens are made; never shown.
    """

    config_path: str | None = None
    node_name: str | None = None
    pod_ip: str | None = None
    stats_secret: str | None = field(default=None, repr=False)

    @classmethod
    def read(cls, environ: Mapping[str, str]) -> EnvArgs:
        """Take what is ours out of an environment."""
        return cls(
            config_path=environ.get("CONFIG_PATH") or None,
            node_name=environ.get("K8S_NODE_NAME") or None,
            pod_ip=environ.get("K8S_POD_IP") or None,
            stats_secret=environ.get("VMSCALER_STATS_SECRET") or None,
        )

    def problems(self, *, platform: str, node_bound: bool) -> list[str]:
        """What is missing or wrong for a platform, a line each that names the variable."""
        found: list[str] = []
        if platform == "neonvm" and self.pod_ip is None:
            found.append("K8S_POD_IP: must be set with platform neonvm")
        if self.pod_ip is not None and not _is_ip(self.pod_ip):
            found.append("K8S_POD_IP: must be an IP address")
        if node_bound and self.node_name is None:
            found.append("K8S_NODE_NAME: must be set when .platform.nodeBound is on")
        if self.node_name is not None and not _is_node_name(self.node_name):
            found.append("K8S_NODE_NAME: must be a node's name: letters, digits, dashes, dots, at most 253")
        return found


def overrides(environ: Mapping[str, str]) -> dict[tuple[str, str], str]:
    """Values that stand in for those of the file, by section and field."""
    return {field: environ[name] for name, field in OVERRIDES.items() if environ.get(name)}


def _is_ip(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _is_node_name(text: str) -> bool:
    return len(text) <= 253 and text.isascii() and text.replace("-", "").replace(".", "").isalnum()
