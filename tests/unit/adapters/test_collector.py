"""Full passes of Python's collector: what they have looked at, they leave alone for a while."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from app.adapters.collector import THRESHOLDS, WHOLE_EVERY_S, ShortCollections
from tests.fakes.clock import FakeClock


class Knot:
    """Holds itself, so that only the collector frees it."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def clock() -> Iterator[FakeClock]:
    clock, thresholds, callbacks = FakeClock(), gc.get_threshold(), list(gc.callbacks)
    gc.disable()
    ShortCollections(clock.monotonic).install()
    assert gc.get_threshold() == THRESHOLDS
    yield clock
    gc.callbacks[:] = callbacks
    gc.set_threshold(*thresholds)
    gc.unfreeze()
    gc.enable()


def test_a_full_pass_looks_at_what_is_new_and_later_at_everything_again(clock: FakeClock) -> None:
    old, new = Knot(), Knot()
    gone_old, gone_new = weakref.ref(old), weakref.ref(new)
    del new
    gc.collect()
    assert gone_new() is None
    assert gc.get_freeze_count() > 1_000

    del old
    gc.collect()
    assert gone_old() is not None, "it was put aside while it was in use"
    clock.advance(WHOLE_EVERY_S)
    gc.collect()
    assert gc.get_freeze_count() == 0
    gc.collect()
    assert gone_old() is None
    assert gc.get_freeze_count() > 1_000


def test_passes_over_the_young_put_nothing_aside(clock: FakeClock) -> None:
    gc.collect(0)
    gc.collect(1)
    assert gc.get_freeze_count() == 0
