"""`vmscaler simulate`: try a policy on a recorded load before it touches a VM. No fleet, no Redis."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import click

from app.cli.config import settings_in_force
from app.cli.shapes import show_json
from app.cli.simulate_table import show_runs
from app.cli.trace_file import read_trace_file, reason
from app.config import Settings, build_settings
from app.config.settings import FileSettings
from app.errors import ConfigurationError, InvalidInput, UsageError
from app.protocols.printable import printable
from app.services.what_if import Run, picture, play, run_json, timeline_lines
from app.services.what_if_options import MAX_VMS, OPTIONS, Value, read_options
from app.services.what_if_plan import RunOptions, build_options
from app.simulation.trace import Trace

MAX_CONFIGURATION_BYTES = 1 << 20
_Command = Callable[..., int]


def _with_options(command: _Command) -> _Command:
    """Each option of a run as an option of the command, read as text."""
    for option in reversed(OPTIONS):
        shown = f"{option.help}" + (f"  [default: {option.default}]" if option.default else "")
        command = click.option(f"--{option.name}", metavar=option.metavar, help=shown)(command)
    return command


@click.command("simulate")
@click.option(
    "--trace", "traces", multiple=True, required=True, metavar="FILE", help="CSV of timestamp,value."
)
@click.option("--mem-trace", metavar="FILE", help="The same for memory, in per cent of --trace-mem.")
@click.option(
    "--compare", nargs=2, metavar="A.json B.json", help="Two configurations side by side on the same trace."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--timeline", metavar="FILE", help="Write the course of every VM as CSV.")
@click.option("--svg", metavar="FILE", help="Draw the course of every VM.")
@_with_options
@click.pass_context
def simulate_command(
    context: click.Context,
    /,
    traces: tuple[str, ...],
    mem_trace: str | None,
    compare: tuple[str, str] | None,
    as_json: bool,
    timeline: str | None,
    svg: str | None,
    **options: str | None,
) -> int:
    """Play a recorded load against the decision core in virtual time, and say what it costs and lacks.

    The demand is value / 100 x --trace-cpus. A trace given several times makes several VMs on one node.
    --compare takes two JSON files of options of this command by name, such as {"max-cpu": 8, "load-target":
    0.7}; sections of the configuration file may stand in them too. The same inputs give the same output.

    Exit status: 0 done, 2 something given is wrong (file:line).
    """
    try:
        settings = settings_in_force(context)
        given = read_options(options, "")
        played = [read_trace_file(name) for name in traces]
        memory = None if mem_trace is None else read_trace_file(mem_trace)
        if len(played) > MAX_VMS:
            raise UsageError(f"at most {MAX_VMS} traces")
        runs = _play_all(given, settings, played, memory, compare)
        if timeline is not None:
            _write(timeline, timeline_lines(runs))
        if svg is not None:
            title = ", ".join(dict.fromkeys(printable(Path(name).name, 60) for name in traces))
            _write(svg, picture(runs, title, with_memory=memory is not None).splitlines())
    except InvalidInput as err:
        raise UsageError(str(err)) from err
    if as_json:
        show_json(
            {"traces": [_trace_json(trace) for trace in played], "runs": [run_json(run) for run in runs]}
        )
    else:
        show_runs(runs)
    return 0


def _play_all(
    given: Mapping[str, Value],
    settings: Settings,
    traces: list[Trace],
    memory: Trace | None,
    compare: tuple[str, str] | None,
) -> list[Run]:
    """The one run, or the two of a comparison, which get the same demand."""
    if not compare:
        return [play("", given, settings, traces, memory)]
    configurations = [(name, *_read_configuration(name, given, settings)) for name in compare]
    first, _ = [_options_in(*configuration) for configuration in configurations]
    shared: dict[str, Value] = {"trace-cpus": first.vm.trace_cpus, "trace-mem": first.vm.trace_mem}
    runs = []
    for name, values, own_settings in configurations:
        runs.append(play(printable(name), {**shared, **values}, own_settings, traces, memory))
    return runs


def _options_in(name: str, values: Mapping[str, Value], settings: Settings) -> RunOptions:
    """The options of a configuration; where they don't go together, its name is told too."""
    try:
        return build_options(values, settings)
    except UsageError as err:
        raise UsageError(f"{printable(name)}: {err}") from err


def _read_configuration(
    name: str, given: Mapping[str, Value], settings: Settings
) -> tuple[dict[str, Value], Settings]:
    """What a file of `--compare` holds: options on top of the command line's, and settings."""
    shown = printable(name)
    try:
        with open(name, "rb") as file:
            raw = file.read(MAX_CONFIGURATION_BYTES + 1)
    except (OSError, ValueError) as err:
        raise UsageError(f"{shown}: can't be read: {reason(err)}") from None
    if len(raw) > MAX_CONFIGURATION_BYTES:
        raise UsageError(f"{shown}: is larger than {MAX_CONFIGURATION_BYTES} bytes")
    try:
        document = json.loads(raw)
    except (ValueError, RecursionError) as err:
        raise UsageError(f"{shown}: is not JSON: {printable(str(err))}") from None
    if not isinstance(document, dict):
        raise UsageError(f"{shown}: must be a JSON object of options")
    sections = {field.alias for field in FileSettings.model_fields.values()}
    configured = {key: value for key, value in document.items() if key in sections}
    if configured:
        try:
            settings = build_settings(configured, os.environ, source=shown)
        except ConfigurationError as err:
            raise UsageError(str(err)) from err
    own = {key: value for key, value in document.items() if key not in sections}
    return {**given, **read_options(own, shown)}, settings


def _write(name: str, lines: Iterable[str]) -> None:
    try:
        with open(name, "w", encoding="utf-8", newline="\n") as file:
            file.writelines(f"{line}\n" for line in lines)
    except (OSError, ValueError) as err:
        raise UsageError(f"{printable(name)}: can't be written: {reason(err)}") from None


def _trace_json(trace: Trace) -> dict[str, object]:
    return {
        "name": trace.name,
        "samples": len(trace.values),
        "begin_ms": trace.begin_ms,
        "period_s": trace.period_ms / 1000,
        "gaps": len(trace.gaps_ms()),
        "least": min(trace.values),
        "greatest": max(trace.values),
    }
