"""How a command reaches the fleet: the services that the configuration in force leads to."""

from __future__ import annotations

import getpass
import os
import socket
from dataclasses import dataclass

import click

from app.protocols.printable import printable
from app.services.inspection import Inspection
from app.services.instructing import Author, Instructing


@dataclass(frozen=True, slots=True)
class FleetAccess:
    """Reading and instructing one fleet; tests hand one in as the context's object."""

    inspection: Inspection
    instructing: Instructing


def fleet_access(context: click.Context) -> FleetAccess:
    """The fleet of the configuration in force; nothing connects before the first question.

    Raises:
        ConfigurationError: the configuration is wrong.
    """
    given = context.find_object(FleetAccess)
    if given is not None:
        return given
    # Imported here: `--help` needs neither Redis' client nor the configuration.
    from app.bootstrap.reading import build_inspection, build_intents
    from app.cli.config import settings_in_force

    settings = settings_in_force(context)
    return FleetAccess(build_inspection(settings), build_intents(settings))


def this_author(reason: str) -> Author:
    """Whoever runs the command, as `user@host`."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        # A container's user often has no name.
        user = f"uid{os.getuid()}"
    return Author(printable(f"{user}@{socket.gethostname()}", 100), printable(reason.strip()))
