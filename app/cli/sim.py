"""`vmscaler sim`: run a fleet of simulated VMs that speak the real wire protocols on loopback."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import click

from app.cli.push_options import push_options
from app.cli.server_options import read_callers
from app.cli.trace_file import read_trace_file
from app.errors import UsageError, VmscalerError
from app.fleet.fleet import ApplyRates
from app.fleet.main import FleetOptions, run_fleet
from app.fleet.pushing import PushOptions
from app.services.what_if_options import read_options
from app.simulation.faults import FAULT_EFFECTS, Fault
from app.simulation.fleet_plan import DEFAULT_MIX
from app.simulation.played_trace import LEAST_SPEED, MOST_SPEED, TraceChoice
from app.simulation.profiles import PROFILE_LOADS, Profile

_FAULTS = "\n".join(f"  {fault.value}: {effect}" for fault, effect in FAULT_EFFECTS.items())
_PROFILES = "\n".join(f"  {profile.value}: {load}" for profile, load in PROFILE_LOADS.items())
_REFUSED = "Share of sizes that are refused without any fault."
_PARTIAL = "Share of sizes of which only the CPUs are applied."
MAX_VMS = 5_000
"""Each VM takes a port and a few file descriptors."""


class _Address(click.ParamType[tuple[str, int]]):
    """`HOST:PORT`; port 0 is a free one."""

    name = "HOST:PORT"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, int]:
        text = str(value)
        host, _, port = text.rpartition(":")
        if not host or not (port.isascii() and port.isdigit()) or int(port) > 65_535:
            self.fail(f"{text!r} is not HOST:PORT", param, ctx)
        return host.strip("[]"), int(port)


@click.command("sim", epilog=f"\b\nProfiles:\n{_PROFILES}\n\n\b\nFaults:\n{_FAULTS}")
@click.option("--vms", default=12, show_default=True, type=click.IntRange(0, MAX_VMS), help="Number of VMs.")
@click.option("--nodes", default=2, show_default=True, type=click.IntRange(1, 1_000), help="Number of nodes.")
@click.option("--seed", default=1, show_default=True, type=click.IntRange(0), help="Fixes all VMs and loads.")
@click.option("--state", type=click.Path(file_okay=False, path_type=Path), help="Keep sizes and ports here.")
@click.option("--control", default="127.0.0.1:10310", show_default=True, type=_Address(), help="Control API.")
@click.option("--token-file", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Its token.")
@click.option("--allow", "allowed", multiple=True, metavar="CIDR", help="Who may call; else everyone.")
@click.option("--tls-cert", metavar="FILE", help="Speak TLS at the control interface with this certificate,")
@click.option("--tls-key", metavar="FILE", help="and this key; else it is in that file too.")
@click.option("--guard-vms", is_flag=True, help="TLS and token at the VMs' own servers, too.")
@click.option(
    "--profile-mix", metavar="NAME=WEIGHT,...", help="Weights, such as daily=3,spike=1; else all profiles."
)
@click.option("--trace", "traces", multiple=True, metavar="FILE", help="CSV of timestamp,value to play.")
@click.option(
    "--trace-speed",
    type=click.FloatRange(LEAST_SPEED, MOST_SPEED),
    help="Seconds of the trace in a second; else 1.",
)
@click.option("--trace-cpus", metavar="CPUS", help="CPUs that 100 in a trace are; else the VM's maximum.")
@click.option(
    "--trace-vms",
    metavar="SHARE|NAME,...",
    help="Who plays: a share of the VMs, or some by name; else all.",
)
@click.option("--fault", "faults", multiple=True, metavar="NAME[:FRACTION]", help="Switch a fault on.")
@click.option("--refuse-rate", default=0.01, show_default=True, type=click.FloatRange(0, 1), help=_REFUSED)
@click.option("--partial-rate", default=0.02, show_default=True, type=click.FloatRange(0, 1), help=_PARTIAL)
@click.option("--observe-host", is_flag=True, help="Show this machine as an observed VM.")
@click.option(
    "--host-metrics", default="127.0.0.1:9100", show_default=True, type=_Address(), help="Its page."
)
@push_options
@click.option("--journal", type=click.Path(dir_okay=False, path_type=Path), help="One JSON line per effect.")
def sim_command(
    vms: int,
    nodes: int,
    seed: int,
    state: Path | None,
    control: tuple[str, int],
    token_file: Path | None,
    allowed: tuple[str, ...],
    tls_cert: str | None,
    tls_key: str | None,
    guard_vms: bool,
    profile_mix: str | None,
    traces: tuple[str, ...],
    trace_speed: float | None,
    trace_cpus: str | None,
    trace_vms: str | None,
    faults: tuple[str, ...],
    refuse_rate: float,
    partial_rate: float,
    observe_host: bool,
    host_metrics: tuple[str, int],
    journal: Path | None,
    push: PushOptions | None,
) -> None:
    """Run a fleet of simulated VMs until Ctrl-C.

    Each VM has a metrics page and a vm-monitor on a loopback port of its own; sizes are asked for at the
    control interface. With --state a fleet that is started again has the same sizes and ports.

    With --trace VMs play recorded loads, value / 100 x --trace-cpus, from the fleet's beginning on, and from
    the trace's beginning again after its end; several traces are played in turn. Their memory is constant.

    With --push the last VMs have no metrics page to be polled, and push their stats to a worker's intake.
    """
    options = FleetOptions(
        vms=vms,
        seed=seed,
        nodes=nodes,
        state=state,
        control=control,
        token=None if token_file is None else _read_token(token_file),
        mix=DEFAULT_MIX if profile_mix is None else parse_mix(profile_mix),
        faults=dict(parse_fault(text) for text in faults),
        rates=ApplyRates(refused=refuse_rate, partial=partial_rate),
        host_metrics=host_metrics if observe_host else None,
        journal=journal,
        traces=_trace_choice(traces, trace_speed, trace_cpus, trace_vms),
        callers=read_callers(allowed),
        certificate=_certificate(tls_cert, tls_key),
        are_vms_guarded=guard_vms,
        push=push,
    )
    if guard_vms and options.certificate is None and options.token is None:
        raise UsageError("--guard-vms needs --token-file or --tls-cert")
    try:
        asyncio.run(run_fleet(options, announce=_announce))
    except UsageError:
        raise
    except VmscalerError as err:
        click.echo(f"vmscaler sim: {err}", err=True)
        sys.exit(1)


def parse_mix(text: str) -> dict[Profile, float]:
    """`steady=3,spike=1` as weights.

    Raises:
        click.BadParameter: an unknown profile, or a weight that is no number from 0 on.
    """
    mix: dict[Profile, float] = {}
    for part in text.split(","):
        name, _, weight = part.partition("=")
        try:
            mix[Profile(name.strip())] = _fraction(weight or "1", 1e6)
        except ValueError as err:
            known = ", ".join(profile.value for profile in Profile)
            raise click.BadParameter(f"{part!r}: NAME=WEIGHT with one of {known}") from err
    if not sum(mix.values()):
        raise click.BadParameter("at least one weight must be above zero")
    return mix


def parse_fault(text: str) -> tuple[Fault, float]:
    """`slow-page:0.1` as the fault and the fraction of the VMs; all of them without a fraction.

    Raises:
        click.BadParameter: an unknown fault, or no fraction between 0 and 1.
    """
    name, _, fraction = text.partition(":")
    try:
        return Fault(name), _fraction(fraction or "1", 1)
    except ValueError as err:
        known = ", ".join(fault.value for fault in Fault)
        raise click.BadParameter(f"{text!r}: NAME[:FRACTION] with one of {known}") from err


def _trace_choice(
    files: tuple[str, ...], speed: float | None, cpus: str | None, who: str | None
) -> TraceChoice | None:
    """What is to be played; None without a trace.

    Raises:
        UsageError: a file is no trace, `cpus` no quantity, or something is said of no trace.
    """
    if not files:
        if (speed, cpus, who) != (None, None, None):
            raise UsageError("--trace-speed, --trace-cpus and --trace-vms need a --trace")
        return None
    values = read_options({"trace-cpus": cpus}, "")
    share, names = parse_trace_vms("1" if who is None else who)
    traces = tuple(read_trace_file(name) for name in files)
    milli = int(values["trace-cpus"]) if "trace-cpus" in values else None
    return TraceChoice(traces, 1.0 if speed is None else speed, milli, share, names)


def parse_trace_vms(text: str) -> tuple[float, tuple[str, ...]]:
    """`0.5` as a share; `web-002,sim/db-001` as names.

    Raises:
        click.BadParameter: a number that is no share, or an empty name.
    """
    try:
        return _fraction(text, 1), ()
    except ValueError as err:
        names = tuple(name.strip() for name in text.split(","))
        if "" in names or not any(letter.isalpha() for letter in text) or text.strip().lower() == "nan":
            raise click.BadParameter(f"{text!r}: a share from 0 to 1, or names of VMs") from err
        return 1.0, names


def _fraction(text: str, most: float) -> float:
    value = float(text)
    if not 0 <= value <= most:
        raise ValueError(text)
    return value


def _certificate(path: str | None, key: str | None) -> tuple[str, str | None] | None:
    """The files for TLS; None: plain HTTP. Raises UsageError."""
    if path is None and key is not None:
        raise UsageError("--tls-key needs --tls-cert")
    return None if path is None else (path, key)


def _read_token(path: Path) -> str:
    """The token in a file that only its owner may read."""
    try:
        mode = path.stat().st_mode
        token = path.read_text("ascii").strip()
    except (OSError, UnicodeError) as err:
        raise click.BadParameter(f"{path}: can't be read as a token") from err
    if mode & 0o077:
        raise click.BadParameter(f"{path}: others may read it; chmod 600 it")
    if not token or len(token) > 4_096:
        raise click.BadParameter(f"{path}: empty or too long")
    return token


def _announce(line: str) -> None:
    click.echo(line)
    sys.stdout.flush()
