"""The story of the interrupted model on a real Redis: fewer faults, the same that must hold."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.model.interrupted_redis import RealRedis
from tests.model.interrupted_worker import scaled
from tests.model.interrupted_world import Fault, World
from tests.model.test_ownership_interrupted import TIMES, calls_of_the_story, tell

SCALE = 10
"""A real Redis takes its own time: what the model calls a second is ten here."""

CASES = [
    (Fault("after", "nothing", is_answered=False), "acquire"),
    (Fault("after", "nothing", is_answered=False), "commit"),
    (Fault("before", "late", 4.6), "renew"),
    (Fault("before", "stopped", 6.0), "commit"),
    (Fault("after", "stopped", 6.0), "acquire"),
    (Fault("after", "killed"), "acquire"),
    (Fault("before", "killed"), "release"),
    (Fault("before", "loses keys"), "commit"),
    (Fault("after", "loses keys", is_answered=False), "acquire"),
    (Fault("before", "restarts"), "acquire"),
    (Fault("before", "fails over", 0.3), "renew"),
    (Fault("after", "fails over", 1.5), "acquire"),
    (Fault("before", "fails over", 1.5), "raise fence"),
    (Fault("after", "fails over", 0.3), "release"),
]


@pytest.fixture
def real(redis_url: str, redis_prefix: str) -> Iterator[RealRedis]:
    backend = RealRedis(redis_url, redis_prefix, scaled(TIMES, SCALE))
    yield backend
    backend.close()


@pytest.mark.parametrize(("fault", "kind"), CASES, ids=str)
def test_one_owner_growing_tokens_and_no_lost_write(real: RealRedis, fault: Fault, kind: str) -> None:
    calls = [at for at, call in enumerate(calls_of_the_story()) if call.partition(" ")[2] == kind]
    world = World(real, TIMES, fault, calls[len(calls) // 2], scale=SCALE)
    tell(world)
    assert len(world.calls) > world.at, "the fault did not come"
    world.recover()
