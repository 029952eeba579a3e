"""The load in a guest as processes: one at a time, all of it ends."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from pathlib import Path

from app.guest.load import Load, LoadRunner
from app.guest.load_work import work
from tests.fleet_process import until

STAYS = (sys.executable, "-c", "import time; time.sleep(600)")


def is_there(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_new_load_ends_the_one_before_and_the_end_ends_it() -> None:
    async def story() -> None:
        runner = LoadRunner(STAYS)
        assert runner.status() == {"is_running": False, "ended": None}
        await runner.begin(Load(1000, 0, 1, 60))
        assert runner._process is not None
        first = runner._process.pid
        assert runner.status()["is_running"] is True
        await runner.begin(Load(2000, 0, 1, 60))
        assert not is_there(first)
        assert runner.status()["milli_cpu"] == 2000
        await runner.end()
        assert runner.status()["ended"] == "ended by signal 9"
        await runner.end()

    asyncio.run(story())


def test_a_load_ends_by_itself_with_all_its_workers() -> None:
    async def story() -> dict[str, object]:
        runner = LoadRunner()
        await runner.begin(Load(1500, 8 << 20, 8 << 20, 1))
        assert runner._process is not None
        await asyncio.wait_for(runner._process.wait(), 60)
        return runner.status()

    assert asyncio.run(story())["ended"] == "over"


def anonymous_bytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon:")), 0)


def test_memory_grows_evenly_up_to_its_size_and_is_in_use() -> None:
    command = [sys.executable, "-m", "app.guest.load_work", "0", str(64 << 20), str(32 << 20), "600"]
    with subprocess.Popen(command) as process:
        try:
            seen = [anonymous_bytes(process.pid)]
            until(lambda: seen.append(anonymous_bytes(process.pid)) or seen[-1] > 64 << 20, "it has all")  # type: ignore[func-returns-value]
        finally:
            process.kill()
    assert len([each for each in set(seen) if 16 << 20 < each < 64 << 20]) >= 3
    assert max(seen) < 96 << 20


def test_a_part_of_a_cpu_is_worked_part_of_the_time() -> None:
    used: dict[float, float] = {}
    for share in (0.2, 1.0):
        begun = time.process_time()
        work(share, time.monotonic() + 0.5)
        used[share] = time.process_time() - begun
    assert used[0.2] < used[1.0]
