"""The section `kubernetes`: how the API server is reached, and what it is asked for."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from app.config.fields import Section, Text, setting


class KubernetesSettings(Section):
    """The API server, of platform neonvm and for leases."""

    kubeconfig: Text | None = setting(
        None, "file; none: the pod's service account, or outside of a cluster the default kubeconfig"
    )
    context: Text | None = setting(None, "context of the kubeconfig; none: its current one")
    namespaces: Annotated[tuple[Text, ...], Field(strict=False, max_length=100)] = setting(
        (), "only VMs of these namespaces, each watched by itself; none: of all, by one watch"
    )
    label_selector: Text | None = setting(
        None, "only VMs that this selector matches, beside `platform.enabledLabel`"
    )
    field_selector: Text | None = setting(None, "only VMs that this selector matches")
    lease_namespace: Text | None = setting(
        None, "with `ownership.leases: kubernetes`: where they are; none: the pod's own, else `default`"
    )
    scheduler_namespace: Text = setting("kube-system", "where the scheduler's pod runs")
    scheduler_selector: Text | None = setting(
        None, "label selector of the scheduler's pod; none: `name=<scheduler.schedulerName>`"
    )
