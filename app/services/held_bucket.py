"""A bucket that this worker holds: its runners and their lives, its committer, its records."""

from __future__ import annotations

from collections.abc import Mapping

from app.ports.store import FencingToken
from app.ports.vm import VmKey
from app.services.committing import BucketCommitter
from app.services.runner import Runner
from app.services.runner_life import Life


class HeldBucket:
    """One held bucket; gone with its lease.

    Attributes:
        records: those that wait for their VM to be listed; of a newer version than ours they stay here.
        left_alone: VMs whose records a newer version wrote.
        lives: of all VMs that have had a runner here, or should have one.
        is_releasing: it is being handed over: nothing is begun in it.
    """

    def __init__(
        self, token: FencingToken, committer: BucketCommitter, records: Mapping[VmKey, bytes]
    ) -> None:
        self.token = token
        self.committer = committer
        self.records = dict(records)
        self.runners: dict[VmKey, Runner] = {}
        self.lives: dict[VmKey, Life] = {}
        self.left_alone: set[VmKey] = set()
        self.is_releasing = False
