"""Ownership with leases in an API server: the story interrupted at every call, and random histories.

The same that holds for leases in Redis holds here, also while objects are deleted or edited by hand, watches
tell nothing, requests are lost and Redis forgets everything.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from app.cluster.lease import LeaseTimes
from app.errors import PeerTimedOut, PeerUnreachable, StoreUnavailable
from app.ports.store import BucketName, FencingToken
from app.protocols.bucket_lease import BucketLease, new_lease, with_lease
from tests.fakes.clock import FakeClock
from tests.fakes.kubernetes_workers import WorkersLeases
from tests.fakes.lease_objects import LeaseServer
from tests.fakes.owners import Owner
from tests.fakes.presence import MemoryPresence
from tests.fakes.states import MemoryState
from tests.model.interrupted_world import NAMES, Fault, World
from tests.model.test_ownership_interrupted import FAULTS, TIMES, tell
from tests.model.test_ownership_model import NAMES as MODEL_NAMES
from tests.model.test_ownership_model import TIMES as MODEL_TIMES
from tests.model.test_ownership_model import TOTAL, OwnershipMachine, seconds, workers


class KubernetesWorld:
    """A `ModelRedis` whose leases are in an API server; the rest is lost and fails over as Redis does."""

    def __init__(self, times: LeaseTimes) -> None:
        self.clock = FakeClock()
        fences: dict[BucketName, int] = {}
        self._presence = MemoryPresence(self.clock, NAMES, duration_s=times.duration_s, fences=fences)
        self.server = LeaseServer()
        for name in NAMES:
            # An earlier fleet has left them free.
            self.server.put(name, with_lease(new_lease(name, "ns"), BucketLease(), "vmscaler"))
        self.leases = WorkersLeases(
            self.server, self._presence, self.clock, NAMES, duration_s=times.duration_s
        )
        self.states = MemoryState(self.clock, fences=fences)

    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)

    def lose_everything(self) -> None:
        self._presence.lose_everything()
        self.states.replace_records({})

    def begin_epoch(self) -> None:
        """A restart of Redis is nothing to leases that are elsewhere."""

    def keep(self) -> object:
        presence = self._presence
        records = {bucket: dict(self.states.load(bucket)) for bucket in NAMES}
        return dict(presence.fences), dict(presence.heartbeats), presence.total, records

    def fail_over(self, kept: Any) -> None:
        fences, heartbeats, total, records = kept
        self._presence.lose_everything()
        self._presence.fences.update(fences)
        self._presence.heartbeats.update(heartbeats)
        self._presence.total = total
        self.states.replace_records(records)


def test_undisturbed_no_bucket_waits_longer_than_a_round() -> None:
    world = World(KubernetesWorld(TIMES), TIMES)
    tell(world)
    world.check_all_is_well()
    assert 0 < world.longest_gap_s <= 1.0


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_one_owner_growing_tokens_and_no_lost_write_whichever_call_is_interrupted(fault: Fault) -> None:
    story = World(KubernetesWorld(TIMES), TIMES)
    tell(story)
    calls = list(enumerate(story.calls))
    # Each call with a fourth of the faults: that all are right with all was tried, and takes two minutes.
    for at, call in calls[FAULTS.index(fault) % 4 :: 4]:
        world = World(KubernetesWorld(TIMES), TIMES, fault, at)
        try:
            tell(world)
            world.recover()
        except AssertionError as err:
            raise AssertionError(f"{fault} at call {at}, {call}: {err}") from err


class _Troubled(WorkersLeases):
    """Calls that the machine may lose or delay as a whole."""

    machine: KubernetesMachine

    def round(self, *arguments: Any) -> Any:
        return self._call("round", super().round, *arguments)

    def acquire(self, *arguments: Any) -> Any:
        return self._call("acquire", super().acquire, *arguments)

    def _call(self, name: str, call: Any, *arguments: Any) -> Any:
        self.machine.before_call(name)
        result = call(*arguments)
        self.machine.after_call(name)
        return result

    def lose_everything(self) -> None:
        self.machine.presence.lose_everything()


class KubernetesMachine(OwnershipMachine):
    def __init__(self) -> None:
        RuleBasedStateMachine.__init__(self)
        self.clock = FakeClock()
        self.server = LeaseServer()
        self.presence = MemoryPresence(self.clock, MODEL_NAMES, duration_s=MODEL_TIMES.duration_s)
        self.store: Any = _Troubled(
            self.server, self.presence, self.clock, MODEL_NAMES, duration_s=MODEL_TIMES.duration_s
        )
        self.store.machine = self
        self.trouble = ""
        self.slow_question_s = self.slow_answer_s = 0.0
        self.starts = 0
        self.highest: dict[BucketName, FencingToken] = {}
        self.owners: list[Owner] = []
        self.owners = [self.start() for _ in range(3)]

    def _objects(self, who: int) -> Any:
        agent_id = self.owners[who].holder.agent_id
        self.store.of(agent_id)
        return self.store.objects[agent_id]

    @rule(who=workers, is_taken=st.booleans(), passed_s=seconds, at=st.integers(0, TOTAL))
    def step_with_a_lost_request(self, who: int, is_taken: bool, passed_s: float, at: int) -> None:
        objects = self._objects(who)
        written: list[BucketName] = []

        def lose(bucket: BucketName) -> None:
            self.check()
            written.append(bucket)
            if len(written) > at:
                self.clock.advance(passed_s)
                self.check()
                raise (PeerTimedOut if is_taken else PeerUnreachable)("Kubernetes API server", "lost")

        hook = "after_write" if is_taken else "before_write"
        setattr(objects, hook, lose)
        self.owners[who].ownership.step()
        setattr(objects, hook, lambda bucket: None)

    @rule(who=workers, is_deaf=st.booleans())
    def a_watch_tells_nothing(self, who: int, is_deaf: bool) -> None:
        self._objects(who).is_deaf = is_deaf

    @rule(is_away=st.booleans())
    def the_api_server_goes_or_comes(self, is_away: bool) -> None:
        self.server.is_away = is_away

    @rule(bucket=st.sampled_from(MODEL_NAMES))
    def somebody_deletes_an_object(self, bucket: BucketName) -> None:
        if bucket in self.server.items:
            self.server.delete(bucket)

    @rule(bucket=st.sampled_from(MODEL_NAMES))
    def somebody_labels_an_object(self, bucket: BucketName) -> None:
        if bucket in self.server.items:
            item = self.server.items[bucket]
            item = {**item, "metadata": {**item["metadata"], "labels": {"team": str(self.clock.wall_ms())}}}
            self.server.put(bucket, item)

    @rule(bucket=st.sampled_from(MODEL_NAMES))
    def somebody_takes_the_holder_away(self, bucket: BucketName) -> None:
        if bucket in self.server.items:
            item = self.server.items[bucket]
            self.server.put(bucket, {**item, "spec": {**item["spec"], "holderIdentity": ""}})

    @rule(who=workers)
    def settle(self, who: int) -> None:
        with suppress(StoreUnavailable):
            self.owners[who].ownership.settle()

    @rule(who=workers)
    def shut_down_and_started_again(self, who: int) -> None:
        with suppress(StoreUnavailable):
            self.owners[who].ownership.release_all()
        self.owners[who] = self.start()

    @rule()
    def after_a_quiet_while_all_buckets_are_shared(self) -> None:
        self.server.is_away = False
        for objects in self.store.objects.values():
            objects.is_deaf = False
        super().after_a_quiet_while_all_buckets_are_shared.__wrapped__(self)  # type: ignore[attr-defined]


TestKubernetesOwnershipModel = KubernetesMachine.TestCase
TestKubernetesOwnershipModel.settings = settings(max_examples=25, stateful_step_count=40, deadline=None)
