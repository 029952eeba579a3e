"""A trace out of a file that the command line names."""

from __future__ import annotations

from app.errors import InvalidInput, UsageError
from app.protocols.printable import printable
from app.services.trace_source import read_trace
from app.simulation.trace import Trace


def read_trace_file(name: str) -> Trace:
    """The trace in a CSV file.

    Raises:
        UsageError: it can't be read, or a line of it is wrong (file:line).
    """
    shown = printable(name)
    try:
        with open(name, "rb") as file:
            return read_trace(file, shown)
    except InvalidInput as err:
        raise UsageError(str(err)) from err
    except (OSError, ValueError) as err:
        raise UsageError(f"{shown}: can't be read: {reason(err)}") from None


def reason(err: OSError | ValueError) -> str:
    """Why a file can't be opened, in the system's words without its number."""
    return err.strerror if isinstance(err, OSError) and err.strerror else printable(str(err))
