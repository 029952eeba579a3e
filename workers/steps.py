"""Boot steps: the agent lives as long as the worker; its queues follow the leases.

The consumer is taken down and set up again at each loss of Redis, the agent is not.
"""

from __future__ import annotations

import logging
import time
from functools import partial
from typing import Any

from celery import bootsteps
from kombu.exceptions import KombuError
from redis.exceptions import RedisError

from app.errors import ConfigurationError
from app.ports.store import BucketName
from app.services.agent import Agent
from workers.ending import EXIT_CONFIGURATION
from workers.process_log import log_anew
from workers.sending import CeleryTaskQueue
from workers.task_counts import count_tasks

logger = logging.getLogger(__name__)

MAX_OLD_TICKS = 20
"""More than these in the shared queue were sent while nobody was there: the next one does as well as all."""


class QueueFollower:
    """Makes what is consumed equal to what is held.

    All changes are made in the consumer's own loop (`call_soon`): its channel belongs to that loop.
    """

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._consumer: Any = None
        self._is_asked = False

    def attach(self, consumer: Any) -> None:
        """The consumer has started (again)."""
        self._consumer = consumer
        self._is_asked = False
        shared = consumer.app.conf.task_default_queue
        if consumer.task_consumer.channel._size(shared) > MAX_OLD_TICKS:
            self._drop_backlog(consumer, shared)
        self.follow()

    def detach(self) -> None:
        """The consumer is going down; what is held is consumed again after the next start."""
        self._consumer = None

    def ask(self) -> None:
        """The leases have changed; may be called from any greenlet."""
        consumer = self._consumer
        if consumer is not None and not self._is_asked:
            self._is_asked = True
            consumer.call_soon(self.follow)

    def follow(self) -> None:
        """Add and cancel queues until they are those of the held buckets."""
        self._is_asked = False
        consumer = self._consumer
        if consumer is None or consumer.task_consumer is None:
            return
        try:
            self._follow(consumer)
        except (KombuError, RedisError, OSError) as err:
            # Asked for again within a second (`Agent` does it).
            logger.warning("queues not changed yet", extra={"reason": type(err).__name__})

    def _follow(self, consumer: Any) -> None:
        held = self._agent.held_buckets()
        selected = set(consumer.app.amqp.queues.consume_from)
        for name in sorted(selected - held - {consumer.app.conf.task_default_queue}):
            consumer.cancel_task_queue(name)
        for name in sorted(held):
            if not consumer.task_consumer.consuming_from(name):
                if name not in selected:
                    self._drop_backlog(consumer, name)
                consumer.add_task_queue(name)

    @staticmethod
    def _drop_backlog(consumer: Any, name: BucketName) -> None:
        """Ticks and scaling tasks sent to the earlier owner: the next tick makes them anew."""
        dropped = consumer.task_consumer.channel.queue_purge(name)
        if dropped:
            logger.info("backlog dropped", extra={"bucket": name, "messages": dropped})


class AgentStep(bootsteps.StartStopStep):  # type: ignore[misc]
    """Builds and starts the agent once the pool is up; hands over when the worker stops."""

    requires = ("celery.worker.components:Pool",)

    def __init__(self, worker: Any, **kwargs: Any) -> None:
        worker.vmscaler_agent = None
        super().__init__(worker, **kwargs)

    def start(self, worker: Any) -> None:
        """Connects to nothing itself: the agent's jobs do."""
        # Imported here: beat and Flower share the app, and need none of the worker's clients.
        from app.adapters.collector import ShortCollections
        from app.bootstrap.tracing import start_tracing
        from app.bootstrap.worker import build_agent
        from app.bootstrap.worker_reloading import build_worker_reloading
        from app.web.server import on_hang_up

        if not getattr(worker.pool, "is_green", False):
            logger.critical("a worker needs the gevent pool: start it with -P gevent")
            raise SystemExit(EXIT_CONFIGURATION)
        settings, name = worker.app.vmscaler_settings, worker.hostname.split("@")[0]
        try:
            queue = CeleryTaskQueue(worker.app)
            agent = build_agent(settings, name, queue, queue)
        except ConfigurationError as err:
            # Not a traceback: the one line that says what to do.
            logger.critical("%s", err)
            raise SystemExit(EXIT_CONFIGURATION) from err
        start_tracing(settings, name)
        count_tasks()
        ShortCollections(time.monotonic).install()
        worker.vmscaler_queues = QueueFollower(agent)
        worker.vmscaler_agent = agent
        worker.app.vmscaler_agent = agent
        agent.start(worker.vmscaler_queues.ask)
        # In place of Celery's own way with this signal, which is to start the process again.
        on_hang_up(build_worker_reloading(settings, name, agent, partial(log_anew, worker.app)).reload)

    def stop(self, worker: Any) -> None:
        """Finish, save, release."""
        if worker.vmscaler_agent is not None:
            from app.bootstrap.tracing import stop_tracing

            worker.vmscaler_agent.stop()
            stop_tracing()

    def terminate(self, worker: Any) -> None:
        """A cold shutdown hands over as well."""
        self.stop(worker)


class QueuesStep(bootsteps.StartStopStep):  # type: ignore[misc]
    """Tells the follower of the consumer's starts and stops."""

    requires = ("celery.worker.consumer.tasks:Tasks",)

    def start(self, consumer: Any) -> None:
        """The consumer's channel is new: consume what is held."""
        consumer.controller.vmscaler_queues.attach(consumer)

    def stop(self, consumer: Any) -> None:
        """No queue is added or cancelled until the next start."""
        consumer.controller.vmscaler_queues.detach()
