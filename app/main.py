"""The console script: hands `guest …` to the in-VM daemon, everything else to the command line.

The guest's path imports nothing of the control plane: the same script stands in a VM, without it.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command that the process was started with, and end the process with its status."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["guest"]:
        from app.guest.main import main as guest

        sys.exit(guest(arguments[1:]))
    from app.cli.root import run

    sys.exit(run(arguments))


if __name__ == "__main__":
    main()
