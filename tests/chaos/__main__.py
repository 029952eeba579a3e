"""`python -m tests.chaos`: one run as the environment says; exit status 0 only without violations."""

from __future__ import annotations

import os
import sys

from tests.chaos.main import run
from tests.chaos.options import WrongOption, read_options

if __name__ == "__main__":
    try:
        sys.exit(run(read_options(os.environ)))
    except WrongOption as err:
        sys.exit(f"chaos: {err}")
