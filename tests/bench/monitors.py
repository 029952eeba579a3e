"""Many idle monitor connections in one worker process; the monitors are in another."""

from __future__ import annotations

import json
import subprocess
import sys

COUNT = 2_000
SECONDS = 30.0
BUDGET_MB = 40.0
BUDGET_CORE = 0.15
_WORKER = "import gevent.monkey as g; g.patch_all(); from tests.bench.monitor_worker import main"


def measure_monitors(count: int = COUNT, seconds: float = SECONDS) -> None:
    """Print memory and CPU of the connections, health checks every 5 s included."""
    peer = subprocess.Popen(
        [sys.executable, "-m", "tests.bench.monitor_peer"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert peer.stdout is not None
        port = peer.stdout.readline().decode().strip()
        command = [sys.executable, "-c", f"{_WORKER}; main({int(port)}, {count}, {seconds})"]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300 + seconds)
    finally:
        peer.communicate(timeout=60)
    found = json.loads(done.stdout)
    share = found["cpu_s"] / found["elapsed_s"]
    megabytes = found["bytes"] / 1e6
    checks = count / 5 * found["elapsed_s"]
    print(f"{found['alive']} of {count} idle monitor connections in one worker, a health check each 5 s")
    each_kib, check_us = found["bytes"] / count / 1024, found["cpu_s"] / checks * 1e6
    print(f"  memory  {megabytes:5.1f} MB, {each_kib:.1f} KiB each (at most {BUDGET_MB:g} MB)")
    print(f"  CPU     {share:5.1%} of a core, {check_us:.0f} us a check (at most {BUDGET_CORE:.0%})")
    print()


if __name__ == "__main__":
    measure_monitors()
