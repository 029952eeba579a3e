"""Simulated VMs that can't be polled push their stats, each with its own token."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from app.adapters.clock import SystemClock
from app.errors import UsageError
from app.fleet.pushing import Pusher, PushOptions
from app.protocols.stats import Stat
from app.services.stat_intake import IntakeLimits, StatIntake
from app.web.stats import add_stats_page
from app.web.worker import WorkerApplication
from tests.fakes.serving import served
from tests.fleet_process import FleetProcess, until

SECRET = "sixteen bytes, or more"


def test_the_last_vms_push_what_their_pages_would_say(tmp_path: Path) -> None:
    taken: list[Stat] = []
    is_full = [True]

    def take(stats: Sequence[Stat]) -> bool:
        if is_full[0]:
            return False
        taken.extend(stats)
        return True

    application = WorkerApplication()
    limits = IntakeLimits(max_entries=100, max_bytes=65_536, per_s=1000.0)
    add_stats_page(application, StatIntake(take, SECRET, SystemClock(), limits))
    (tmp_path / "secret").write_text(SECRET)
    with served(application) as port:
        fleet = FleetProcess(
            *("--push", "2", "--push-url", f"http://127.0.0.1:{port}"),
            *("--push-secret-file", str(tmp_path / "secret"), "--push-every", "0.1"),
            vms=5,
        )
        try:
            vms = fleet.vms()
            keys = [key for key, vm in vms.items() if vm["metrics"] is None]
            assert {key[-3:] for key in keys} == {"004", "005"}
            until(lambda: fleet.process.poll() is None, "it runs, though nobody takes anything")
            is_full[0] = False
            until(lambda: len(taken) > 20 and {stat.key for stat in taken} == set(keys), "both push")
            for key in keys:
                times = [stat.timestamp for stat in taken if stat.key == key]
                assert times == sorted(set(times))
            stat, model = taken[-1], fleet.vm(taken[-1].key)
            slots = model["observed"]["mem"] * model["slot_bytes"]
            assert 0.5 * slots < stat.mem_total_bytes <= slots
        finally:
            assert fleet.stop() == 0


@pytest.mark.parametrize("url", ["127.0.0.1:9100", "https://x:1", "http://x:99999", "http://x/v1/stats"])
def test_an_address_that_cannot_be_pushed_to_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="--push-url"):
        Pusher(None, PushOptions(1, (url,), SECRET))  # type: ignore[arg-type]
