"""What the operator's commands and the demo's screen read and write."""

from __future__ import annotations

import time
import uuid

from app.adapters.clock import SystemClock
from app.bootstrap.stores import Stores
from app.config import Settings
from app.ports.store import BucketName
from app.protocols.agent_store import AgentStore
from app.services.following import Following
from app.services.inspection import Buckets, Inspection, Sources
from app.services.instructing import Instructing


def build_inspection(settings: Settings) -> Inspection:
    """The reader behind the operator's commands and the demo's screen.

    Raises:
        ConfigurationError: Redis' address or its password file can't be read.
    """
    stores = Stores(settings)
    sources = Sources(
        states=stores.states,
        leases=stores.leases,
        agents=stores.agents,
        intents=stores.intents,
        clock=SystemClock(),
    )
    buckets = Buckets(stores.names, owner=lambda key: BucketName(stores.ring.owner(key)))
    return Inspection(sources, buckets, poll_period_s=settings.metrics.seconds_between_requests)


def build_informant_agents(settings: Settings) -> AgentStore:
    """The listing behind `informant list`.

    Raises:
        ConfigurationError: Redis' address or its password file can't be read.
    """
    return Stores(settings).informant_agents


def build_intents(settings: Settings) -> Instructing:
    """The writer behind `pause`, `resume` and `vm set`.

    Raises:
        ConfigurationError: Redis' address or its password file can't be read.
    """
    stores = Stores(settings)
    return Instructing(
        intents=stores.intents,
        states=stores.states,
        clock=SystemClock(),
        new_id=lambda: str(uuid.uuid4()),
        sleep=time.sleep,
    )


def build_following(settings: Settings) -> Following:
    """What is behind `record`.

    Raises:
        ConfigurationError: Redis' address or its password file can't be read.
    """
    stores = Stores(settings)
    return Following(
        intents=stores.intents,
        streams=stores.recordings,
        clock=SystemClock(),
        new_id=lambda: str(uuid.uuid4()),
        sleep=time.sleep,
    )
