"""One worker process: its services, wired."""

from __future__ import annotations

import logging
from functools import partial

from app.adapters.clock import SystemClock
from app.adapters.green import GreenConcurrency
from app.adapters.recording_files import RecordingDirectory
from app.bootstrap.billing import build_billing
from app.bootstrap.cluster_rights import check_credentials
from app.bootstrap.identity import make_facts, make_holder
from app.bootstrap.informants import build_informants
from app.bootstrap.leases import build_bucket_names, build_lease_store
from app.bootstrap.peers import build_metrics_pages, build_monitor_dialer, build_scheduler_client
from app.bootstrap.platform import build_platform, build_scheduler_watch
from app.bootstrap.scaling_events import build_event_reports
from app.bootstrap.stores import Stores
from app.bootstrap.unreadable_vms import report_unreadable
from app.bootstrap.worker_dump import serve_dump
from app.bootstrap.worker_metrics import serve_metrics
from app.bootstrap.worker_progress import watch_progress
from app.bootstrap.worker_stats import build_stats, connect_stats
from app.bootstrap.worker_web import WorkerWeb
from app.cluster.lease import LeaseTimes
from app.config import Settings
from app.errors import OwnershipLost, StoreUnavailable
from app.ports.runtime import TaskQueue
from app.ports.sender import Sender, holder_text
from app.ports.stats import StatBell
from app.ports.store import BucketName, Holder, LeaseStore
from app.services.agent import Agent
from app.services.agent_settings import AgentSettings
from app.services.executors import Executors
from app.services.ownership import Ownership
from app.services.polling import Polling
from app.services.recording import FileRules, Recordings
from app.services.runner import Runner
from app.services.runner_part import RunnerPart
from app.services.scaling import Scaling
from app.services.scheduler_link import SchedulerLink
from app.services.supervisor import Supervisor

logger = logging.getLogger(__name__)


def agent_settings(settings: Settings, worker: str) -> AgentSettings:
    """The worker's part of the configuration."""
    monitor = settings.monitor
    return AgentSettings(
        worker=worker,
        core=settings.core_config(),
        poll_period_s=settings.metrics.seconds_between_requests,
        metrics_timeout_s=settings.metrics.request_timeout_seconds,
        metrics_prefix=settings.metrics.load_metric_prefix,
        scheduler_timeout_s=settings.scheduler.request_timeout_seconds,
        platform_timeout_s=settings.scaling.request_timeout_seconds,
        apply_timeout_s=settings.scaling.apply_timeout_seconds,
        monitor_connect_timeout_s=monitor.connection_timeout_seconds,
        monitor_response_timeout_s=monitor.response_timeout_seconds,
        monitor_retry_min_wait_s=monitor.connection_retry_min_wait_seconds,
        silence_s=monitor.unhealthy_after_silence_duration_seconds,
        grace_s=monitor.unhealthy_startup_grace_period_seconds,
        compute_unit=settings.scaling.compute_unit.resources(),
    )


def _check_total(leases: LeaseStore, total: int) -> None:
    """Refuse to start with another number of buckets than the fleet's; a Redis that is away is let off."""
    try:
        leases.check_total(total)
    except StoreUnavailable as err:
        logger.warning("number of buckets not checked yet", extra={"reason": err.problem})


def _file_rules(settings: Settings, worker: str) -> FileRules | None:
    """Which VMs are recorded to files, and where to; None: none."""
    recording = settings.recording
    if not recording.vms or recording.directory is None:
        return None
    size, age_s = recording.max_bytes, recording.max_seconds
    files = RecordingDirectory(recording.directory, worker, max_bytes=size, max_s=age_s)
    return FileRules(recording.vms, files, max_bytes=size, max_s=age_s)


def _token_of(ownership: Ownership, bucket: str) -> int | None:
    try:
        return ownership.guard(BucketName(bucket)).token
    except OwnershipLost:
        return None


def _lease_times(settings: Settings) -> LeaseTimes:
    return LeaseTimes(
        duration_s=settings.ownership.lease_duration_seconds,
        renew_every_s=settings.ownership.renew_every_seconds,
        give_up_after_s=settings.ownership.give_up_after_seconds,
    )


def build_agent(settings: Settings, worker: str, queue: TaskQueue, bell: StatBell) -> Agent:
    """The services of one worker process, wired and not yet started.

    Args:
        worker: the worker's name, such as `worker1`.
        queue: where scaling tasks go.
        bell: tells other workers of stats that wait for them.

    Raises:
        ConfigurationError: something that the configuration names can't be used.
    """
    check_credentials(settings)
    times = agent_settings(settings, worker)
    clock, concurrency = SystemClock(), GreenConcurrency()
    stores = Stores(settings)
    leases, lease_parts = build_lease_store(settings, stores.connection)
    _check_total(leases, settings.ownership.buckets)
    holder, facts = make_holder(settings, worker), make_facts(worker, clock.wall_ms())
    agent = Agent(times, clock, concurrency, holder, stores.ticks, stores.intents, stores.agents, facts)
    ownership = Ownership(
        leases,
        clock,
        stores.ring,
        holder,
        _lease_times(settings),
        on_acquired=agent.bucket_acquired,
        on_lost=agent.bucket_lost,
        on_releasing=agent.bucket_releasing,
    )
    sender = Sender(holder_text(holder), stores.ring.owner, partial(_token_of, ownership))
    platform, pages = build_platform(settings, sender), build_metrics_pages(settings, sender)
    peers = platform, build_monitor_dialer(settings, sender), pages
    supervisor = Supervisor(times, clock, concurrency, stores.ring, stores.states, ownership, peers)
    link = SchedulerLink(build_scheduler_watch(settings, stores.agents, clock), agent.scheduler_changed)

    def commit(runner: Runner) -> None:
        supervisor.commit(runner.bucket, [runner])

    scheduler = link, build_scheduler_client(settings, sender)
    executors = Executors(times, clock, ownership, commit, scheduler, platform, supervisor.link)
    scaling = Scaling(clock, concurrency, agent.timers, queue, executors, commit, supervisor.crashed)
    polling = Polling(
        times,
        clock,
        concurrency,
        pages,
        commit=lambda runners: supervisor.commit(runners[0].bucket, runners),
        dispatch=scaling.dispatch,
        crashed=supervisor.crashed,
    )
    agent.counts["jobs"] = lambda: concurrency.jobs
    supervisor.connect(
        scaling.consider, scaling.forget, lambda: link.current()[0] is not None, agent.bucket_fenced
    )
    recordings = Recordings(worker, clock, concurrency, stores.recordings, _file_rules(settings, worker))
    agent.connect(ownership, supervisor, link, executors, scaling, polling, recordings)
    stats = build_stats(settings, stores, holder, bell, (clock, concurrency))
    connect_stats(stats, settings, clock, ownership, (supervisor, scaling))
    agent.forward_stats(stats)
    web = WorkerWeb(settings, worker, stats)
    agent.serve(web)
    watch_progress(settings, stores, agent, web)
    lease_parts += build_bucket_names(settings, ownership, web, concurrency)
    for part in (RunnerPart(supervisor), *lease_parts):
        agent.add_part(part)
    report_unreadable(settings, worker, agent, supervisor, platform, clock)
    serve_metrics(settings, stores, agent, stats, web, (clock, concurrency))
    serve_dump(settings, worker, agent, (clock, concurrency))
    _add_parts(agent, settings, worker, stores, holder, (clock, concurrency))
    return agent


def _add_parts(
    agent: Agent,
    settings: Settings,
    worker: str,
    stores: Stores,
    holder: Holder,
    runtime: tuple[SystemClock, GreenConcurrency],
) -> None:
    """What a configuration may leave out: billing, reports of events, agents of informants."""
    billing = build_billing(settings, stores, holder, agent.ownership, runtime)
    if billing is not None:
        billing.connect(agent.supervisor.inventory, agent.supervisor.bucket_of)
        agent.add_part(billing)
    reports = build_event_reports(settings, worker, runtime)
    if reports is not None:
        agent.supervisor.report_to(reports.watch)
        reports.connect(agent.supervisor.runners)
        agent.add_part(reports)
    informants = build_informants(settings, worker, *runtime, stores.informant_agents)
    if informants is not None:
        agent.register_with(informants)
