"""The command line's root: options for all commands, and the commands by name, imported when they are used.

A command is a click object in a module of its own. It may return a whole number as exit status; None is 0.
Exit statuses: 0 done, 1 an error, 2 wrong usage or configuration, 3 Redis gives no answer, 130 interrupted.
"""

from __future__ import annotations

import errno
import importlib
import importlib.util
import os
import sys
from collections.abc import Sequence

import click
from click.shell_completion import CompletionItem

from app import __version__
from app.errors import ConfigurationError, StoreUnavailable, UsageError, VmscalerError
from app.protocols.printable import printable

COMMANDS: dict[str, tuple[str, str]] = {
    "agents": ("app.cli.agents:agents_command", "List the fleet's processes in order of registration."),
    "bucket": ("app.cli.bucket:bucket_command", "Print the bucket of VM keys, and its holder."),
    "buckets": ("app.cli.buckets:buckets_group", "Change the number of buckets."),
    "completion": ("app.cli.completion:completion_command", "Let your shell complete commands and options."),
    "config": ("app.cli.config:config_group", "Check and show the configuration."),
    "demo": ("app.cli.demo:demo_command", "Run everything on this machine, with simulated VMs, and watch."),
    "demo-vm": ("app.cli.demo_vm:demo_vm_command", "Run two real VMs and a fleet that scales them."),
    "doctor": ("app.cli.doctor:doctor_command", "Look at everything around the fleet; say what to mend."),
    "drain": ("app.cli.drain:drain_command", "Let a worker hand over all its buckets and take none."),
    "dump": ("app.cli.dump:dump_command", "Print what all workers know of their VMs, as JSON."),
    "events": ("app.cli.events:events_command", "Print the audit trail of a VM."),
    "explain": ("app.cli.explain:explain_command", "Say how the last decision about a VM came about."),
    "image": ("app.cli.image:image_group", "Build the guest image for VMs on this machine."),
    "informant": ("app.cli.informant:informant_group", "Ask the informant in a VM by hand."),
    "leases": ("app.cli.leases:leases_command", "Say who holds which bucket, and why nobody does."),
    "metrics": ("app.cli.metrics:metrics_group", "Describe the metrics of our processes."),
    "monitor": ("app.cli.monitor:monitor_group", "Ask the vm-monitor in a VM by hand."),
    "pause": ("app.cli.pause:pause_command", "Begin no change of size of a VM, or of all."),
    "record": ("app.cli.record:record_command", "Record a VM's events and decisions, for replay."),
    "replay": ("app.cli.replay:replay_command", "Feed recorded event scripts to the decision core."),
    "resume": ("app.cli.pause:resume_command", "Take a pause back."),
    "scheduler": (
        "app.cli.scheduler:scheduler_command",
        "Serve permits to platforms without a scheduler; ask one.",
    ),
    "sim": ("app.cli.sim:sim_command", "Run a fleet of simulated VMs."),
    "simulate": ("app.cli.simulate:simulate_command", "Try a policy on a recorded load, in virtual time."),
    "status": ("app.cli.status:status_command", "Say how the fleet and its processes are."),
    "support-bundle": (
        "app.cli.support_bundle:support_bundle_command",
        "Write what a bug report needs into one archive, without secrets.",
    ),
    "token": ("app.cli.token:token_command", "Print the token with which a VM pushes its stats."),
    "vm": ("app.cli.vm:vm_group", "List VMs, show one, set its mode or size; run some here."),
}
"""Name, where the click object is, and its line in the help."""

GUEST_HELP = "The daemon in a VM (metrics page); see `vmscaler guest --help`."

STATUS_ERROR = 1
STATUS_USAGE = 2
STATUS_STORE = 3
STATUS_INTERRUPTED = 130

_OUTPUT_ERRORS = {errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EIO}
"""What writing to standard output may end in: its reader is gone, its disk is full."""

MAX_ERROR_LENGTH = 8000
"""Characters of an error's line; a configuration may have many mistakes."""


class LazyGroup(click.Group):
    """A group whose commands are imported when they are named, not to be listed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands whose modules are installed."""
        return [name for name, (place, _) in COMMANDS.items() if _is_installed(place)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command; None for an unknown name."""
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        if not _is_installed(module):
            raise UsageError(f"the command {cmd_name} is not in this installation")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Commands by their beginnings, told without importing any; options as click tells them."""
        rows = [*((name, COMMANDS[name][1]) for name in self.list_commands(ctx)), ("guest", GUEST_HELP)]
        commands = [CompletionItem(name, help=text) for name, text in rows if name.startswith(incomplete)]
        return commands + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The help's list, written without importing any command."""
        rows = [(name, COMMANDS[name][1]) for name in self.list_commands(ctx)] + [("guest", GUEST_HELP)]
        with formatter.section("Commands"):
            formatter.write_dl(sorted(rows))


@click.command("vmscaler", cls=LazyGroup, no_args_is_help=True)
@click.option(
    "--config",
    "config_path",
    metavar="PATH",
    envvar="CONFIG_PATH",
    help="The configuration file; else the one that CONFIG_PATH names, else all is default.",
)
@click.option("-v", "--verbose", count=True, help="Log what is done to standard error; -vv: more of it.")
@click.version_option(__version__, "--version", prog_name="vmscaler", message="%(prog)s %(version)s")
def root(config_path: str | None, verbose: int) -> None:
    """Scale running VMs live, CPU and memory, up and down."""
    import logging

    from app.adapters.log_lines import configure_logging

    configure_logging((logging.WARNING, logging.INFO, logging.DEBUG)[min(verbose, 2)])


def run(arguments: Sequence[str]) -> int:
    """Run a command; every error is one line on standard error.

    Returns:
        The exit status.
    """
    _write_what_can_be_written()
    try:
        result = root.main(args=list(arguments), prog_name="vmscaler", standalone_mode=False)
        sys.stdout.flush()
    except (click.Abort, KeyboardInterrupt):
        return STATUS_INTERRUPTED
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return STATUS_USAGE
    except click.ClickException as error:
        return _fail(error.format_message(), error.exit_code)
    except VmscalerError as error:
        return _fail(str(error), exit_status(error))
    except OSError as error:
        if error.errno not in _OUTPUT_ERRORS:
            raise
        if error.errno != errno.EPIPE:
            _fail(f"the output can't be written: {error.strerror}", STATUS_ERROR)
        # Whoever read our output has gone; what Python still holds must not be written at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return STATUS_ERROR
    return result if isinstance(result, int) else 0


def exit_status(error: VmscalerError) -> int:
    """The exit status that belongs to an error."""
    match error:
        case UsageError() | ConfigurationError():
            return STATUS_USAGE
        case StoreUnavailable():
            return STATUS_STORE
        case _:
            return STATUS_ERROR


def _fail(text: str, status: int) -> int:
    click.echo(f"vmscaler: {printable(' '.join(text.split()), MAX_ERROR_LENGTH)}", err=True)
    return status


def _is_installed(place: str) -> bool:
    return importlib.util.find_spec(place.partition(":")[0]) is not None


def _write_what_can_be_written() -> None:
    """A terminal that can't show a character gets an escape, not a traceback."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
