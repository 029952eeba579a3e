"""Brings scaling events to a webhook: one signed POST each, tried again with growing pauses."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from app.errors import PeerError, PeerRefused
from app.ports.runtime import Clock, Signal
from app.ports.webhooks import WebhookPoster
from app.protocols.webhook import DELIVERY_HEADER, EVENT_HEADER, SIGNATURE_HEADER, render, sign
from app.services.event_delivery import LAST_TRY_S, DeliveryRules, EventQueue
from app.services.scaling_events import ScalingEvent

FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0
"""Between two tries: doubled each time, with jitter."""


@dataclass(frozen=True, slots=True)
class WebhookRules:
    """One webhook.

    Attributes:
        kinds: events that it gets.
        secret: signs every body.
        template: of the body; None: the event as JSON.
        retry_for_s: an event that could not be delivered for so long is dropped.
    """

    name: str
    kinds: Collection[str]
    secret: str
    template: str | None
    retry_for_s: float


class WebhookDelivery:
    """Events for one webhook, in order: one that can't be delivered holds the others up, for a bounded time.

    Args:
        jitter: a number from 0 to 1, another each time.
    """

    def __init__(
        self,
        poster: WebhookPoster,
        webhook: WebhookRules,
        rules: DeliveryRules,
        clock: Clock,
        jitter: Callable[[], float],
    ) -> None:
        self._poster = poster
        self._webhook = webhook
        self._rules = rules
        self._clock = clock
        self._jitter = jitter
        self._queue = EventQueue(webhook.name, rules.max_queued)
        self.name = webhook.name

    @property
    def problem(self) -> str:
        """See `Delivery.problem`."""
        return self._queue.problem

    def put(self, event: ScalingEvent) -> None:
        """See `Delivery.put`; those of other kinds are let go."""
        if event.kind in self._webhook.kinds:
            self._queue.put(event)

    def counters(self) -> dict[str, int]:
        """See `Delivery.counters`."""
        return self._queue.counters()

    def run(self, stop: Signal) -> None:
        """See `Delivery.run`."""
        while not stop.wait(self._rules.push_every_s):
            while self._queue.events and not stop.is_set():
                self._deliver(self._queue.events[0], stop)
        for event in list(self._queue.events):
            if not self._try(event, LAST_TRY_S):
                break
        self._poster.close()

    def _deliver(self, event: ScalingEvent, stop: Signal) -> None:
        """Try until it is taken, its time is over, or we are told to stop."""
        deadline = self._clock.monotonic() + self._webhook.retry_for_s
        pause_s = FIRST_PAUSE_S
        while not stop.is_set() and not self._try(event, self._rules.timeout_s):
            pause = pause_s * (0.5 + self._jitter() / 2)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
            if self._clock.monotonic() + pause >= deadline:
                self._leave(event)
                self._queue.drop(self._queue.problem)
            elif not stop.wait(pause) and self._queue.events and self._queue.events[0] is event:
                continue
            return

    def _try(self, event: ScalingEvent, timeout_s: float) -> bool:
        """One try; whether the event is out of the queue: taken, or refused for good."""
        template = self._webhook.template
        body = event.encode() if template is None else render(template, event.values())
        headers = {
            SIGNATURE_HEADER: sign(self._webhook.secret, body, self._clock.wall_ms() // 1000),
            EVENT_HEADER: event.kind,
            DELIVERY_HEADER: event.event_id,
        }
        try:
            self._poster.post(body, headers, timeout_s=timeout_s)
        except PeerError as err:
            self._queue.failures += 1
            self._queue.say(str(err))
            if not _is_for_good(err):
                return False
            self._queue.drop(str(err))
        else:
            self._queue.sent += 1
            self._queue.say("")
        self._leave(event)
        return True

    def _leave(self, event: ScalingEvent) -> None:
        if self._queue.events and self._queue.events[0] is event:
            self._queue.events.popleft()


def _is_for_good(err: PeerError) -> bool:
    """The receiver will never take this body: 4xx, except those that ask for patience."""
    code = err.code if isinstance(err, PeerRefused) else None
    return code is not None and 400 <= code < 500 and code not in (401, 403, 404, 408, 425, 429)
