"""A worker's stats: forwarder, queues, acceptance and, where it is switched on, the intake."""

from __future__ import annotations

from pathlib import Path

from app.adapters.journal_file import JournalFile
from app.bootstrap.stores import Stores
from app.config import Settings
from app.errors import ConfigurationError
from app.ports.runtime import Clock, Concurrency
from app.ports.stats import StatBell
from app.ports.store import Holder
from app.services.ownership import Ownership
from app.services.runner import Runner
from app.services.scaling import Scaling
from app.services.stat_accepting import StatAccepting
from app.services.stat_intake import IntakeLimits, StatIntake
from app.services.stats import Stats
from app.services.supervisor import Supervisor


def build_stats(
    settings: Settings, stores: Stores, holder: Holder, bell: StatBell, runtime: tuple[Clock, Concurrency]
) -> Stats:
    """Not yet connected.

    Raises:
        ConfigurationError: the journal can't be opened.
    """
    clock, concurrency = runtime
    journal = None if settings.stats.journal is None else _journal(settings.stats.journal)
    return Stats(stores.ring, clock, concurrency, holder, stores.stats, bell, journal)


def connect_stats(
    stats: Stats, settings: Settings, clock: Clock, ownership: Ownership, owners: tuple[Supervisor, Scaling]
) -> None:
    """Let them reach the runners.

    Raises:
        ConfigurationError: the intake is on and has no secret.
    """
    supervisor, scaling = owners

    def commit(runner: Runner) -> None:
        supervisor.commit(runner.bucket, [runner])

    accepting = StatAccepting(
        supervisor, ownership, commit, scaling.dispatch, supervisor.crashed, stats.accepted
    )
    stats.connect(accepting.accept, ownership, ownership, _intake(settings, clock, stats))


def _journal(path: str) -> JournalFile:
    try:
        return JournalFile(Path(path))
    except (OSError, ValueError) as err:
        problem = f".stats.journal: can't be opened: {getattr(err, 'strerror', None) or err}"
        raise ConfigurationError([problem]) from None


def _intake(settings: Settings, clock: Clock, stats: Stats) -> StatIntake | None:
    own = settings.stats
    if not own.enabled:
        return None
    limits = IntakeLimits(own.max_entries, own.max_body_bytes, own.rate_per_second)
    return StatIntake(stats.take, own.secret(settings.env.stats_secret), clock, limits)
