"""`python -m tests.billing_process CONFIG NAME TOKEN`: a worker's billing alone, which holds all buckets.

Everything is the real thing but leases and Celery, so that a process is up in a second: whoever comes with a
higher token has the buckets.
"""

from __future__ import annotations

import gevent.monkey

gevent.monkey.patch_all()

import logging  # noqa: E402
import sys  # noqa: E402

from app.adapters.clock import SystemClock  # noqa: E402
from app.adapters.green import GreenConcurrency  # noqa: E402
from app.adapters.platform_sim import SimPlatform  # noqa: E402
from app.bootstrap.billing import build_billing  # noqa: E402
from app.bootstrap.stores import Stores  # noqa: E402
from app.config import load_settings  # noqa: E402
from app.ports.store import BucketName, FencingToken, Holder  # noqa: E402
from app.services.guarding import Guard  # noqa: E402
from app.services.inventory import Inventory  # noqa: E402


class HeldForEver:
    """The guard of every bucket; that there is a newer owner is found out at the next write."""

    def __init__(self, token: FencingToken) -> None:
        self.token = token

    def guard(self, bucket: BucketName) -> Guard:
        return self

    def limit_s(self, setting_s: float) -> float:
        return setting_s

    def check(self) -> None:
        """Ours as far as we know."""


def main(config: str, name: str, token: FencingToken) -> None:
    """Bill until killed; says that it is up once it holds the buckets."""
    logging.basicConfig(level=logging.INFO)
    settings = load_settings(config, {})
    stores, runtime = Stores(settings), (SystemClock(), GreenConcurrency())
    billing = build_billing(settings, stores, Holder(f"{name}_x", name), HeldForEver(token), runtime)
    assert billing is not None
    inventory = Inventory(
        SimPlatform(settings.platform.url.reveal()),
        lambda vm: None,
        lambda key: None,
        lambda: None,
        spread=0.5,
    )
    billing.connect(inventory, lambda key: BucketName(stores.ring.owner(key)))
    for bucket in stores.names:
        stores.states.raise_fence(bucket, token)
        billing.acquired(bucket, token)
    stop = runtime[1].signal()
    jobs = [runtime[1].spawn(job, lambda run=run: run(stop)) for job, run in billing.jobs().items()]  # type: ignore[misc]
    sys.stdout.write("up\n")
    sys.stdout.flush()
    inventory.run(stop)
    for job in jobs:
        job.join()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], FencingToken(int(sys.argv[3])))
