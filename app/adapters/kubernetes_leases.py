"""Leases of buckets as Lease objects of a Kubernetes API server; all other state stays in Redis.

One request for each bucket and renewal; foreign leases are known from one watch. A request names the version
of the object that it is based on, so of several only one is accepted. A round's heartbeat in Redis comes
before its renewals: whoever has no live heartbeat believes in no lease.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from math import ceil
from typing import TypeGuard

from app.adapters.kubernetes_lease_cache import SeenLeases
from app.errors import ConfigurationError, LeasesUnavailable, PeerError, PeerRefused
from app.ports.lease_objects import LeaseObject, LeaseObjects
from app.ports.presence import Presence, PresenceView
from app.ports.store import BucketName, FencingToken, Holder, LeaseRow, LeaseView
from app.protocols.bucket_lease import MAX_TRANSITIONS, BucketLease, new_lease, object_name, with_lease

LONGEST_S = 5.0
"""For all requests of a round together; a third of the lease where that is less."""

Held = Mapping[BucketName, FencingToken]


class KubernetesLeases:
    """The `LeaseStore` of one worker.

    Args:
        place: (namespace, fleet) of the objects.
        names: all buckets.
        duration_s: how long a lease lives without renewal; the objects tell it in whole seconds, rounded up.
    """

    def __init__(
        self,
        objects: LeaseObjects,
        presence: Presence,
        place: tuple[str, str],
        names: Sequence[str],
        *,
        duration_s: float,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._objects = objects
        self._presence = presence
        self._namespace, self._fleet = place
        self._names = tuple(BucketName(name) for name in names)
        self._duration_s = duration_s
        self._limit_s = min(LONGEST_S, duration_s / 3)
        self._monotonic = monotonic
        self._seen = SeenLeases(
            self._names,
            duration_s=duration_s,
            where=lambda name: f"Lease {self._namespace}/{object_name(name, self._fleet)}",
            monotonic=monotonic,
        )
        self._trouble: PeerError | None = None

    def check_total(self, total: int) -> None:
        """See `LeaseStore.check_total`."""
        self._presence.check_total(total)

    def round(self, holder: Holder, renew: Held) -> LeaseView:
        """See `LeaseStore.round`; a lease whose renewal had no answer is among `unanswered`."""
        presence = self._presence.beat(holder, renew)
        self._follow(is_asking=bool(renew))
        current = {bucket: token for bucket, token in renew.items() if presence.fences[bucket] <= token}
        renewed, unanswered = self._renew(holder, current, presence.redis_ms)
        return LeaseView(
            leases={bucket: self._row(bucket, presence) for bucket in self._names},
            live_agents=presence.live_agents,
            renewed=renewed,
            redis_ms=presence.redis_ms,
            draining=presence.draining,
            silence_ms=round(self._seen.silence_s() * 1000),
            unanswered=unanswered,
        )

    def acquire(self, holder: Holder, buckets: Sequence[BucketName], seen: FencingToken) -> Held:
        """See `LeaseStore.acquire`; nothing before the first round.

        The fences are raised before it returns. A bucket of which Redis knows a newer token, or another
        holder, is let go again.
        """
        if not self._seen.is_begun:
            return {}
        try:
            last = self._presence.beat(holder, {})
        except ConfigurationError:
            return {}  # stopped since its last round; the next one says it
        tokens = {
            bucket: self._new_token(bucket, last, seen)
            for bucket in buckets
            if bucket not in last.in_redis and self._may_take(bucket, holder)
        }
        wanted = {
            bucket: self._claimed(bucket, holder, token, last.redis_ms) for bucket, token in tokens.items()
        }
        answers = self._write(wanted)
        self._complain(answers)
        taken = {bucket: tokens[bucket] for bucket, answer in answers.items() if isinstance(answer, dict)}
        if not taken:
            return {}
        now = self._presence.beat(holder, taken)
        refused = {
            bucket: token
            for bucket, token in taken.items()
            if now.fences[bucket] > token or bucket in now.in_redis
        }
        if refused:
            self.release(holder, refused)
        return {bucket: token for bucket, token in taken.items() if bucket not in refused}

    def release(self, holder: Holder, held: Held) -> None:
        """See `LeaseStore.release`; the object stays, without a holder, and its token with it."""
        ours = [bucket for bucket, token in held.items() if self._seen[bucket].is_of(holder, token)]
        answers = self._write(self._released(ours))
        again = [bucket for bucket, answer in answers.items() if _is_conflict(answer)]
        self._read_again(again)
        still = [bucket for bucket in again if self._seen[bucket].is_of(holder, held[bucket])]
        answers = {**answers, **self._write(self._released(still))}
        problem = next((each for each in answers.values() if _is_trouble(each)), None)
        if problem is not None:
            raise self._unavailable(problem)

    def leave(self, holder: Holder) -> None:
        """See `LeaseStore.leave`."""
        self._presence.leave(holder)

    def problems(self) -> list[str]:
        """Objects that can't be read, and a watch that can't be had; a sentence each."""
        return [*self._seen.problems(), *filter(None, [self._objects.problem])]

    # --- parts ----------------------------------------------------------------------------------------------

    def _follow(self, *, is_asking: bool) -> None:
        """What is new; after requests that failed one is made, if none would be: is the server back?"""
        try:
            self._seen.take(self._objects.news(timeout_s=self._limit_s))
            if self._trouble is not None and not is_asking:
                self._objects.read(self._names[0], timeout_s=self._limit_s)
                self._trouble = None
        except PeerError as err:
            self._trouble = err
            if not is_asking or not self._seen.is_begun:
                raise self._unavailable(err) from err

    def _renew(
        self, holder: Holder, held: Held, redis_ms: int
    ) -> tuple[frozenset[BucketName], frozenset[BucketName]]:
        """(renewed, those of which that is not known); what is in neither is lost."""
        asked = self._to_renew(holder, held, redis_ms)
        answers = dict(self._write(asked))
        again = [bucket for bucket, answer in answers.items() if _is_conflict(answer)]
        self._read_again(again)
        retried = self._to_renew(holder, {bucket: held[bucket] for bucket in again}, redis_ms)
        answers |= self._write(retried)
        lost = set(again) - retried.keys()
        renewed = frozenset(bucket for bucket, answer in answers.items() if isinstance(answer, dict))
        unanswered = frozenset(answers.keys() - renewed - lost)
        if unanswered and not renewed:
            raise self._unavailable(next(answers[bucket] for bucket in unanswered))
        return renewed, unanswered

    def _to_renew(self, holder: Holder, held: Held, redis_ms: int) -> dict[BucketName, LeaseObject]:
        """Those that are ours as far as we know, or gone; those that have waited longest first."""
        found = {}
        for bucket in sorted(held, key=lambda name: self._seen[name].since):
            seen = self._seen[bucket]
            if seen.lease is None:
                continue
            if seen.item is None:
                # Somebody has deleted it. We have not given it up: it is asserted with its own token.
                found[bucket] = self._claimed(bucket, holder, held[bucket], redis_ms)
            elif seen.is_of(holder, held[bucket]) and self._seen.remaining_s(bucket) > 0:
                renewed = _renewed(seen.lease, holder, self._moment(seen.lease, redis_ms))
                found[bucket] = with_lease(seen.item, renewed, self._fleet)
        return found

    def _may_take(self, bucket: BucketName, holder: Holder) -> bool:
        seen = self._seen[bucket]
        return seen.lease is not None and (seen.holder == holder or self._seen.remaining_s(bucket) <= 0)

    def _new_token(self, bucket: BucketName, last: PresenceView, seen: FencingToken) -> FencingToken:
        """Above all that Redis, the object and the caller know of, and above Redis' time as in Redis."""
        known = self._seen[bucket]
        return FencingToken(max(known.token, last.fences[bucket], last.redis_ms, seen) + 1)

    def _claimed(self, bucket: BucketName, holder: Holder, token: FencingToken, redis_ms: int) -> LeaseObject:
        seen = self._seen[bucket]
        before = seen.lease or BucketLease()
        item = seen.item or new_lease(object_name(bucket, self._fleet), self._namespace)
        moment = self._moment(before, redis_ms)
        lease = BucketLease(
            identity=holder.identity,
            agent_id=holder.agent_id,
            token=token,
            transitions=min(before.transitions + 1, MAX_TRANSITIONS),
            duration_s=ceil(self._duration_s),
            acquired=moment,
            renewed=moment,
        )
        return with_lease(item, lease, self._fleet)

    def _released(self, buckets: Iterable[BucketName]) -> dict[BucketName, LeaseObject]:
        found = {}
        for bucket in buckets:
            seen = self._seen[bucket]
            if seen.item is not None and seen.lease is not None:
                old = seen.lease
                free = BucketLease("", "", old.token, old.transitions, 1, old.acquired, old.renewed)
                found[bucket] = with_lease(seen.item, free, self._fleet)
        return found

    def _write(
        self, wanted: Mapping[BucketName, LeaseObject]
    ) -> Mapping[BucketName, LeaseObject | PeerError]:
        """Write, and take in what is there now."""
        if not wanted:
            return {}
        answers = self._objects.write(wanted, timeout_s=self._limit_s)
        troubles = [answer for answer in answers.values() if _is_trouble(answer)]
        self._trouble = troubles[0] if len(troubles) == len(answers) else None
        for bucket, answer in answers.items():
            if isinstance(answer, dict):
                self._seen.take_one(bucket, answer)
            elif isinstance(answer, PeerRefused) and answer.code == 404:
                self._seen.take_one(bucket, None)
        return answers

    def _read_again(self, buckets: Iterable[BucketName]) -> None:
        """What is there in place of what we knew; without an answer the rest is left for the next round."""
        for bucket in buckets:
            try:
                item = self._objects.read(bucket, timeout_s=self._limit_s)
            except PeerError:
                return
            self._seen.take_one(bucket, item)

    def _row(self, bucket: BucketName, presence: PresenceView) -> LeaseRow:
        if bucket in presence.in_redis:
            return presence.in_redis[bucket]
        seen = self._seen[bucket]
        rest_ms = round(self._seen.remaining_s(bucket) * 1000)
        if seen.holder is None or rest_ms <= 0:
            return LeaseRow(bucket, None, seen.token, 0)
        acquired_ms = 0 if seen.lease is None else unix_ms(seen.lease.acquired)
        return LeaseRow(bucket, seen.holder, seen.token, rest_ms, acquired_ms)

    @staticmethod
    def _moment(before: BucketLease, redis_ms: int) -> str:
        """Redis' time for the object, never the one that stands there: a renewal must be seen as one."""
        micros = redis_ms * 1000
        text = _rfc3339(micros)
        return _rfc3339(micros + 1) if text == before.renewed else text

    def _complain(self, answers: Mapping[BucketName, LeaseObject | PeerError]) -> None:
        """Raise where nothing was taken for other reasons than that others were faster."""
        problem = next((each for each in answers.values() if _is_trouble(each)), None)
        if problem is not None and not any(isinstance(each, dict) for each in answers.values()):
            raise self._unavailable(problem)

    def _unavailable(self, problem: LeaseObject | PeerError) -> LeasesUnavailable:
        text = problem.problem if isinstance(problem, PeerError) else ""
        return LeasesUnavailable(self._objects.peer, text)


def unix_ms(text: str) -> int:
    """Of a time in an object, for display; 0 where there is none that can be read."""
    try:
        return round(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError):
        return 0


def _renewed(lease: BucketLease, holder: Holder, moment: str) -> BucketLease:
    return BucketLease(
        identity=holder.identity,
        agent_id=holder.agent_id,
        token=lease.token,
        transitions=lease.transitions,
        duration_s=lease.duration_s,
        acquired=lease.acquired,
        renewed=moment,
    )


def _rfc3339(micros: int) -> str:
    return datetime.fromtimestamp(micros // 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%S") + (
        f".{micros % 1_000_000:06d}Z"
    )


def _is_conflict(answer: LeaseObject | PeerError) -> bool:
    """Another version is there, or the object came or went meanwhile."""
    return isinstance(answer, PeerRefused) and answer.code in (404, 409)


def _is_trouble(answer: LeaseObject | PeerError) -> TypeGuard[PeerError]:
    return isinstance(answer, PeerError) and not _is_conflict(answer)
