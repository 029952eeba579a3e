"""Names of buckets in the cluster are led to their holder: soon, again after a failure, never by others."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from app.errors import PeerRefused
from app.ports.store import BucketName, FencingToken
from app.services.bucket_names import BucketNames
from tests.fakes.clock import FakeClock
from tests.fakes.concurrency import VirtualConcurrency
from tests.service_builders import BUCKET
from tests.worker_harness import Guards

TOKEN = FencingToken(1)


class Services:
    """Notes what is published."""

    def __init__(self) -> None:
        self.published: list[tuple[dict[BucketName, FencingToken], int, float | None]] = []
        self.refusal: PeerRefused | None = None
        self.problems: dict[BucketName, str] = {}

    def publish(
        self,
        held: Mapping[BucketName, FencingToken],
        port: int,
        limit_s: Callable[[BucketName, FencingToken], float | None],
    ) -> Mapping[BucketName, str]:
        if self.refusal is not None:
            raise self.refusal
        self.published.append((dict(held), port, limit_s(BUCKET, TOKEN)))
        return self.problems


class Server:
    address: str | None = "10.0.0.1:10303"


def build() -> tuple[BucketNames, Services, Guards, Server]:
    services, guards, server = Services(), Guards(), Server()
    return BucketNames(services, guards, server, VirtualConcurrency(FakeClock())), services, guards, server


def test_a_bucket_of_ours_is_published_on_our_port_under_its_guard() -> None:
    names, services, _, _ = build()
    assert names.look()
    assert services.published == []
    names.acquired(BUCKET, TOKEN)
    assert names.look()
    assert services.published == [({BUCKET: TOKEN}, 10_303, 5.0)]
    assert names.counters() == {"bucket_services": 1}
    names.lost(BUCKET)
    assert names.look()
    assert len(services.published) == 1


def test_for_a_bucket_that_was_lost_or_taken_anew_no_request_is_begun() -> None:
    names, services, guards, _ = build()
    names.acquired(BUCKET, TOKEN)
    guards.token = FencingToken(2)
    names.look()
    guards.is_lost = True
    names.look()
    assert [limit for _, _, limit in services.published] == [None, None]


def test_before_the_server_listens_nothing_is_published() -> None:
    names, services, _, server = build()
    names.acquired(BUCKET, TOKEN)
    server.address = None
    assert not names.look()
    assert services.published == []


def test_what_fails_is_told_until_it_is_well_or_the_bucket_is_gone() -> None:
    names, services, _, _ = build()
    names.acquired(BUCKET, TOKEN)
    services.refusal = PeerRefused("Kubernetes API server", "status 403")
    assert not names.look()
    assert names.problems() == ["services of buckets: Kubernetes API server: status 403"]
    services.refusal, services.problems = None, {BUCKET: "is not ours"}
    assert not names.look()
    assert names.problems() == ["services of buckets: is not ours"]
    names.lost(BUCKET)
    assert names.problems() == []
