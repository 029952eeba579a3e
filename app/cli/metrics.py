"""`vmscaler metrics reference`: the page of all metrics."""

from __future__ import annotations

import click

from app.services.metrics_reference import metrics_page_text


@click.group("metrics")
def metrics_group() -> None:
    """Describe the metrics of our processes."""


@metrics_group.command("reference")
def reference_command() -> None:
    """Print the page of all metrics, as in docs/metrics.md."""
    click.echo(metrics_page_text(), nl=False)
