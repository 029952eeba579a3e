"""Random histories of three workers on one store: at no moment may two begin work on the same bucket."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from app.cluster.lease import LeaseTimes
from app.cluster.ring import bucket_names
from app.errors import OwnershipLost, StoreUnavailable
from app.ports.store import BucketName, FencingToken
from tests.fakes.clock import FakeClock
from tests.fakes.leases import MemoryLeases
from tests.fakes.owners import Owner

TIMES = LeaseTimes(duration_s=6, renew_every_s=1, give_up_after_s=4)
TOTAL = 4
NAMES = [BucketName(name) for name in bucket_names(TOTAL)]

workers = st.integers(0, 2)
seconds = st.sampled_from([0.2, 1.0, 1.0, 2.5, 3.7, 7.0])


class OwnershipMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.store = MemoryLeases(self.clock, NAMES, duration_s=TIMES.duration_s)
        self.starts = 0
        self.owners = [self.start() for _ in range(3)]
        self.highest: dict[BucketName, FencingToken] = {}
        self.store.before_call = self.before_call
        self.store.after_call = self.after_call
        self.trouble = ""
        self.slow_question_s = self.slow_answer_s = 0.0

    def start(self) -> Owner:
        self.starts += 1
        return Owner(f"w{self.starts}", self.store, self.clock, TOTAL, TIMES)

    def before_call(self, name: str) -> None:
        self.check()
        self.clock.advance(self.slow_question_s)
        self.check()
        if self.trouble == f"{name} lost":
            raise StoreUnavailable("redis", "the question was lost")

    def after_call(self, name: str) -> None:
        self.clock.advance(self.slow_answer_s)
        self.check()
        if self.trouble == f"{name} unanswered":
            raise StoreUnavailable("redis", "the answer was lost")

    @rule(who=workers)
    def step(self, who: int) -> None:
        self.owners[who].ownership.step()

    @rule(who=workers)
    def settle(self, who: int) -> None:
        self.owners[who].ownership.settle()

    @rule(
        who=workers,
        trouble=st.sampled_from(
            [
                "",
                "",
                "",
                "round lost",
                "round unanswered",
                "acquire lost",
                "acquire unanswered",
            ]
        ),
        question_s=st.sampled_from([0.0, 0.3, 3.0]),
        answer_s=st.sampled_from([0.0, 0.3, 3.0, 5.5, 7.0]),
        who_looks=workers,
    )
    def troubled_step(
        self, who: int, trouble: str, question_s: float, answer_s: float, who_looks: int
    ) -> None:
        self.trouble, self.slow_question_s, self.slow_answer_s = trouble, question_s, answer_s
        self.owners[who].ownership.step()
        self.trouble, self.slow_question_s, self.slow_answer_s = "", 0.0, 0.0
        self.owners[who_looks].ownership.step()

    @rule(passed_s=seconds)
    def time_passes(self, passed_s: float) -> None:
        self.clock.advance(passed_s)

    @rule(who=workers)
    def expire(self, who: int) -> None:
        self.owners[who].ownership.expire_overdue()

    @rule(who=workers, bucket=st.sampled_from(NAMES))
    def refused_write(self, who: int, bucket: BucketName) -> None:
        self.owners[who].ownership.drop(bucket)

    @rule(who=workers)
    def killed_and_started_again(self, who: int) -> None:
        self.owners[who] = self.start()

    @rule(who=workers)
    def shut_down_and_started_again(self, who: int) -> None:
        self.owners[who].ownership.release_all()
        self.owners[who] = self.start()

    @precondition(lambda self: self.starts < 20)
    @rule()
    def redis_loses_everything(self) -> None:
        self.store.lose_everything()

    @rule()
    def after_a_quiet_while_all_buckets_are_shared(self) -> None:
        for _ in range(60):
            for owner in self.owners:
                owner.round()
            self.clock.advance(0.5)
        held = [owner.ownership.held() for owner in self.owners]
        assert sorted(bucket for of in held for bucket in of) == NAMES
        assert all(len(of) <= 2 for of in held)
        assert all(set(owner.begun) == of for owner, of in zip(self.owners, held, strict=True))

    @invariant()
    def check(self) -> None:
        for bucket in NAMES:
            tokens = []
            for owner in self.owners:
                try:
                    guard = owner.ownership.guard(bucket)
                    guard.check()
                except OwnershipLost:
                    continue
                tokens.append(guard.token)
            assert len(tokens) <= 1, f"two may work on {bucket}"
            if tokens:
                assert tokens[0] >= self.highest.get(bucket, 0), f"the token of {bucket} went down"
                self.highest[bucket] = tokens[0]


TestOwnershipModel = OwnershipMachine.TestCase
TestOwnershipModel.settings = settings(max_examples=120, stateful_step_count=40, deadline=None)
