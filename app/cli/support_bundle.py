"""`vmscaler support-bundle`: what one attaches to a bug report, in one archive without secrets."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import click

from app.cli.durations import parse_duration_ms
from app.cli.fleet_access import fleet_access
from app.cli.leases import lease_table_shape
from app.cli.shapes import audit_shape, fleet_shape, vm_shape
from app.cli.tables import Column, show_table
from app.errors import PeerError
from app.ports.pages import PageReader
from app.services.dump_gathering import DumpGathering
from app.services.inspection import Inspection
from app.services.lease_listing import LeaseListing
from app.services.pod_state import utc_text
from app.services.redaction import Redaction
from app.services.support_files import Part, make_files
from app.services.wording import bytes_text, count_text

INCOMPLETE = 1
"""Exit status when the archive was written, and some part of it could not be had."""

EVENTS_OF_A_VM = 50
"""Newest entries of a VM's audit trail."""

MAX_EVENT_VMS = 500
"""VMs whose events are taken, those in trouble first."""

PAGE_S = 5.0
"""For one metrics page."""

MAX_PAGE_BYTES = 32 << 20

MAX_PAGES = 64
"""Processes whose metrics are taken."""


@dataclass(frozen=True, slots=True)
class SupportAccess:
    """What the command reads; tests hand one in as the context's object.

    Attributes:
        secrets: known ones, to be taken out of everything.
        texts: further files, each with what makes it.
    """

    inspection: Inspection
    leases: LeaseListing
    gathering: DumpGathering
    pages: PageReader
    secrets: set[str]
    texts: Mapping[str, Callable[[], str]] = field(default_factory=dict)


@click.command("support-bundle")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A new file; else vmscaler-support-<time>.tar.gz here.",
)
@click.option(
    "--timeout", default="15s", show_default=True, metavar="DURATION", help="For the workers' dumps."
)
@click.pass_context
def support_bundle_command(context: click.Context, output: Path | None, timeout: str) -> int:
    """Write state dumps, versions, configuration, events, metrics, leases and status into one archive.

    Passwords and tokens are shown as ***: those that the configuration leads to, and whatever looks like one.
    Look at it all the same before you send it: names and addresses of VMs and hosts are in it.

    Exit status: 0 all is in it; 1 something could not be had, as CONTENTS.json in it says.
    """
    from app.adapters.archive_file import write_archive

    timeout_s = parse_duration_ms(timeout) / 1000
    access = _access(context)
    now_ms = access.inspection.now()
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now_ms / 1000))
    name = f"vmscaler-support-{stamp}"
    made = make_files(_parts(access, timeout_s), Redaction(access.secrets), {"takenAt": utc_text(now_ms)})
    path = Path(f"{name}.tar.gz") if output is None else output
    size = write_archive(path, name, made.files, at_s=now_ms // 1000)
    click.echo(f"{path}: {count_text(len(made.files), 'file')}, {bytes_text(size)}")
    for part, why in made.missing.items():
        click.echo(f"missing: {part}: {why}", err=True)
    show_table(
        (Column("file"), Column("bytes", is_right=True)),
        [(each, str(len(content))) for each, content in made.files.items()],
    )
    return INCOMPLETE if made.missing else 0


def _parts(access: SupportAccess, timeout_s: float) -> dict[str, Part]:
    parts: dict[str, Part] = {}
    for name, make in access.texts.items():
        parts[name] = lambda name=name, make=make: {name: make()}  # type: ignore[misc]
    parts["status.json"] = lambda: {"status.json": _json(fleet_shape(access.inspection.fleet_view()))}
    parts["vms.json"] = lambda: {
        "vms.json": _json([vm_shape(row) for row in access.inspection.fleet_view().vms])
    }
    parts["leases.json"] = lambda: {"leases.json": _json(lease_table_shape(access.leases.table()))}
    parts["events.jsonl"] = lambda: {"events.jsonl": "".join(_events(access.inspection))}
    parts["dump.json"] = lambda: {"dump.json": _dump(access, timeout_s)}
    parts["metrics"] = lambda: dict(_metrics(access))
    return parts


def _dump(access: SupportAccess, timeout_s: float) -> str:
    fleet = access.gathering.gather(access.inspection.agents(), timeout_s=timeout_s)
    return _json(fleet.shape(utc_text(access.inspection.now())))


def _events(inspection: Inspection) -> Iterator[str]:
    """A line for each of the newest entries, by VM."""
    rows = sorted(inspection.fleet_view().vms, key=lambda row: (row.status == "ok", row.key))
    for row in rows[:MAX_EVENT_VMS]:
        for line in inspection.audit(row.key, EVENTS_OF_A_VM):
            yield json.dumps({"vm": row.key, **audit_shape(line, row.slot_bytes)}) + "\n"


def _metrics(access: SupportAccess) -> Iterator[tuple[str, str]]:
    """A file for each process that has an HTTP server; one that gives no page says why in it."""
    having = [agent for agent in access.inspection.agents() if agent.address is not None]
    for agent in having[:MAX_PAGES]:
        safe = re.sub(r"[^A-Za-z0-9._-]", "_", f"{agent.kind}-{agent.name}-{agent.agent_id[:8]}")[:100]
        try:
            page = access.pages.read(
                agent.kind, agent.address or "", "/metrics", timeout_s=PAGE_S, max_bytes=MAX_PAGE_BYTES
            ).decode(errors="replace")
        except PeerError as err:
            page = f"# no metrics of {agent.kind} {agent.name}: {err}\n"
        yield f"metrics/{safe}.txt", page


def _json(value: object) -> str:
    return json.dumps(value, indent=1) + "\n"


def _access(context: click.Context) -> SupportAccess:
    given = context.find_object(SupportAccess)
    if given is not None:
        return given
    # Imported here: `--help` needs neither clients nor the configuration.
    from app.bootstrap.owning import build_lease_listing
    from app.bootstrap.support import build_dump_gathering, build_pages, redis_facts, versions
    from app.cli.config import settings_in_force
    from app.config.secrets import known_secrets
    from app.config.showing import effective_yaml

    settings = settings_in_force(context)
    return SupportAccess(
        fleet_access(context).inspection,
        build_lease_listing(settings),
        build_dump_gathering(settings),
        build_pages(settings),
        known_secrets(settings, os.environ),
        {
            "versions.json": lambda: _json(versions()),
            "config.yaml": lambda: effective_yaml(settings),
            "redis.txt": lambda: redis_facts(settings),
        },
    )
