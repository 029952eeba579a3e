"""The Kubernetes API server of the configuration, and where the scheduler's pod is there."""

from __future__ import annotations

from app.adapters.kubernetes_api import ApiServer
from app.config import Settings


def build_api_server(settings: Settings) -> ApiServer:
    """Connections of their own for each user: one that waits keeps nobody else back."""
    return ApiServer(settings.kubernetes.kubeconfig, settings.kubernetes.context)


def scheduler_selector(settings: Settings) -> str:
    """The labels of the scheduler's pods: as configured, or those that it has by its name."""
    return settings.kubernetes.scheduler_selector or f"name={settings.scheduler.scheduler_name}"
