"""VMs that push their stats to whichever worker they find, and note what they were told."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import requests

from app.protocols.stat_tokens import vm_token
from tests.chaos.evidence import Pushed
from tests.chaos.notebook import Notebook
from tests.chaos.setup import Place

THREADS = 4
"""Each pushes for VMs of its own, so that one silent worker does not hold up all."""

PUSHING_VMS = 48
"""So many VMs push; each is polled as well."""

TIMEOUT_S = 3.0

_MOST_AT_ONCE = 3


class Pushers:
    """Threads that push until `stop`.

    Args:
        keys: the fleet's VMs, of which the first push.
        addresses: of the workers that are known at the moment, by name.
    """

    def __init__(
        self,
        place: Place,
        notebook: Notebook,
        keys: Sequence[str],
        addresses: Callable[[], Mapping[str, str]],
    ) -> None:
        self._place = place
        self._notebook = notebook
        self._addresses = addresses
        self._secret = place.stats_secret.read_text().strip()
        self._stop = threading.Event()
        mine = [list(keys[number:PUSHING_VMS:THREADS]) for number in range(THREADS)]
        self._threads = [
            threading.Thread(target=self._run, args=(number, own), name=f"pusher-{number}", daemon=True)
            for number, own in enumerate(mine)
            if own and place.options.stats_per_s > 0
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End; what was sent is noted by then."""
        self._stop.set()
        for thread in self._threads:
            thread.join(4 * TIMEOUT_S)

    def _run(self, number: int, keys: Sequence[str]) -> None:
        dice = random.Random(f"{self._place.options.seed}/{number}")
        last = dict.fromkeys(keys, 0)
        while not self._stop.wait(dice.uniform(0.5, 1.5) * THREADS * 2 / self._place.options.stats_per_s):
            workers = sorted(self._addresses().items())
            key = dice.choice(keys)
            count = dice.randint(1, _MOST_AT_ONCE)
            worker, address = dice.choice(workers) if workers else ("", "")
            sample = self._sample(key) if address else None
            if sample is None:
                continue
            now = max(int(time.time() * 1000), last[key] + 1)
            stats = [sample | {"key": key, "timestamp": now + place} for place in range(count)]
            last[key] = now + count - 1
            status = self._push(address, key, stats)
            for stat in stats:
                self._notebook.add(Pushed(time.monotonic(), key, stat["timestamp"], worker, status))

    def _sample(self, key: str) -> dict[str, Any] | None:
        """What the VM really is like, from the fleet's control interface."""
        url = f"http://127.0.0.1:{self._place.control_port}/v1/vms/{key}"
        try:
            vm = requests.get(url, timeout=TIMEOUT_S).json()
        except (requests.RequestException, ValueError):
            return None
        total = vm["observed"]["mem"] * vm["slot_bytes"]
        physics = vm["physics"]
        return {
            "load1": physics["load1"],
            "load5": physics["load1"],
            "memTotalBytes": total,
            "memAvailableBytes": max(total - physics["mem_used_bytes"], 0),
        }

    def _push(self, address: str, key: str, stats: list[dict[str, Any]]) -> int:
        """The status; 0 where no answer came, and the stats may have been taken all the same."""
        headers = {"Authorization": f"Bearer {vm_token(self._secret, key)}"}
        try:
            url = f"http://{address}/v1/stats"
            return requests.post(url, json=stats, headers=headers, timeout=TIMEOUT_S).status_code
        except requests.RequestException:
            return 0
