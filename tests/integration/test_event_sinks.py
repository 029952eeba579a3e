"""The three sinks against real servers and real files."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from app.adapters.sink_file import FileSink
from app.adapters.sink_http import HttpPoster, HttpSink
from app.adapters.sink_s3 import S3Sink, object_name
from app.bootstrap.sinks import http_sink
from app.config.secret_url import SecretUrl
from app.config.security_section import PeerSecurity
from app.errors import PeerError, PeerRefused, PeerTimedOut, PeerUnreachable
from app.protocols.aws_signature import S3Credentials
from tests.fakes.event_server import EventServer, event_server, s3_problem

EVENTS = [b'{"idempotency_key":"k-1","value":1}', b'{"idempotency_key":"k-2","value":2}']
LABEL = "2026-11-29T22:03:35.123456Z-host-1/2"
CREDENTIALS = S3Credentials("AKIAEXAMPLE", "secret/+key", "eu-central-1")


@pytest.fixture
def server() -> Iterator[EventServer]:
    with event_server(EventServer()) as running:
        yield running


def values(path: Path) -> list[int]:
    return [json.loads(line)["value"] for line in gzip.decompress(path.read_bytes()).splitlines()]


# --- HTTP -------------------------------------------------------------------------------------------------


def test_a_batch_is_posted_behind_the_url_with_a_trace_id_of_its_own(server: EventServer) -> None:
    sink = http_sink(SecretUrl(f"{server.url}/billing/", ("http",)), "/usage_events", PeerSecurity(), ".x")
    for _ in range(2):
        sink.send(EVENTS, label=LABEL, timeout_s=10)
    first, second = server.requests
    assert (first.method, first.path) == ("POST", "/billing/usage_events")
    assert json.loads(first.body) == {"events": [json.loads(event) for event in EVENTS]}
    assert first.headers["content-type"] == "application/json"
    assert len({request.headers["x-trace-id"] for request in (first, second)}) == 2
    sink.close()


@pytest.mark.parametrize("code", [201, 204, 301, 400, 500])
def test_only_a_200_means_that_a_sink_has_the_batch(server: EventServer, code: int) -> None:
    server.answers.append(code)
    sink = HttpSink(server.url, server.url)
    with pytest.raises(PeerRefused) as caught:
        sink.send(EVENTS, label=LABEL, timeout_s=10)
    assert caught.value.code == code
    assert len(server.requests) == 1


def test_a_password_in_the_url_is_used_and_never_told(server: EventServer) -> None:
    url = SecretUrl(f"http://ada:pa%20ss@127.0.0.1:{server.port}", ("http",))
    server.answers.append(401)
    sink = http_sink(url, "/usage_events", PeerSecurity(), ".x")
    with pytest.raises(PeerRefused) as caught:
        sink.send(EVENTS, label=LABEL, timeout_s=10)
    assert server.requests[0].headers["authorization"] == "Basic YWRhOnBhIHNz"
    assert "pa" + "%20ss" not in str(caught.value)
    assert "***" in str(caught.value)


def test_a_bearer_token_lets_us_in(server: EventServer) -> None:
    HttpSink(server.url, server.url, bearer="abc").send(EVENTS, label=LABEL, timeout_s=10)
    assert server.requests[0].headers["authorization"] == "Bearer abc"


def test_a_sink_that_closes_without_an_answer_may_have_the_batch(server: EventServer) -> None:
    server.answers.append(0)
    with pytest.raises(PeerTimedOut):
        HttpSink(server.url, server.url).send(EVENTS, label=LABEL, timeout_s=10)
    with pytest.raises(PeerUnreachable):
        HttpSink("http://127.0.0.1:1", "x").send(EVENTS, label=LABEL, timeout_s=10)


def test_a_webhook_takes_any_answer_below_300(server: EventServer) -> None:
    poster = HttpPoster(server.url, "webhook ops", None)
    server.answers.extend([204, 302])
    assert poster.post(b"{}", {"X-A": "b"}, timeout_s=10) == 204
    assert server.requests[0].headers["x-a"] == "b"
    with pytest.raises(PeerRefused, match="webhook ops"):
        poster.post(b"{}", {}, timeout_s=10)
    poster.close()


# --- S3 ---------------------------------------------------------------------------------------------------


def an_s3(server: EventServer, **changes: object) -> S3Sink:
    facts = {"endpoint": server.url, "bucket": "usage", "prefix": "a b/", "credentials": CREDENTIALS}
    return S3Sink(**(facts | changes), moment=lambda: "20261129T220335Z")  # type: ignore[arg-type]


def test_a_batch_is_an_object_with_a_signature_that_s3_accepts(server: EventServer) -> None:
    server.s3_keys = (CREDENTIALS.access_key, CREDENTIALS.secret_key)
    sink = an_s3(server)
    sink.send(EVENTS, label=LABEL, timeout_s=10)
    (path,) = server.objects
    assert path == "/usage/a%20b/2026/11/29/2026-11-29T22_03_35.123456Z-host-1_2.jsonl.gz"
    assert server.object_lines() == [json.loads(event) for event in EVENTS]
    sink.close()


def test_the_checker_of_signatures_refuses_what_was_changed(server: EventServer) -> None:
    server.s3_keys = (CREDENTIALS.access_key, CREDENTIALS.secret_key)
    an_s3(server).send(EVENTS, label=LABEL, timeout_s=10)
    (good,) = server.requests
    assert s3_problem(good, *server.s3_keys) == ""
    for bad in (
        good._replace(path=good.path + "x"),
        good._replace(body=good.body + b"x"),
        good._replace(method="POST"),
        good._replace(headers=good.headers | {"content-type": "text/plain"}),
        good._replace(headers=good.headers | {"host": "elsewhere"}),
    ):
        assert s3_problem(bad, *server.s3_keys) != ""


def test_a_wrong_key_is_told_without_the_key(server: EventServer) -> None:
    server.s3_keys = (CREDENTIALS.access_key, "another")
    with pytest.raises(PeerRefused, match="SignatureDoesNotMatch") as caught:
        an_s3(server).send(EVENTS, label=LABEL, timeout_s=10)
    assert CREDENTIALS.secret_key not in str(caught.value)
    assert CREDENTIALS.secret_key not in repr(CREDENTIALS)


def test_a_batch_that_is_sent_again_takes_the_place_of_the_first(server: EventServer) -> None:
    server.s3_keys = (CREDENTIALS.access_key, CREDENTIALS.secret_key)
    server.answers.append(500)
    sink = an_s3(server)
    with pytest.raises(PeerRefused):
        sink.send(EVENTS[:1], label=LABEL, timeout_s=10)
    sink.send(EVENTS, label=LABEL, timeout_s=10)
    assert [event["value"] for event in server.object_lines()] == [1, 2]


def test_an_endpoint_may_have_a_path_and_no_prefix(server: EventServer) -> None:
    server.s3_keys = (CREDENTIALS.access_key, CREDENTIALS.secret_key)
    an_s3(server, endpoint=f"{server.url}/s3/", prefix="").send(EVENTS, label=LABEL, timeout_s=10)
    assert next(iter(server.objects)).startswith("/s3/usage/2026/11/29/")


def test_no_label_leads_out_of_its_place() -> None:
    assert object_name("../../etc/passwd") == "undated/.._.._etc_passwd.jsonl.gz"
    assert len(object_name("2026-01-01T" + "x" * 1000)) < 230


def test_the_signature_of_the_published_example() -> None:
    """ "Example: PUT Object" of the S3 API reference."""
    from app.protocols.aws_signature import sign_s3_request

    credentials = S3Credentials(
        "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "us-east-1"
    )
    headers = sign_s3_request(
        credentials,
        "PUT",
        "examplebucket.s3.amazonaws.com",
        "/test%24file.text",
        b"Welcome to Amazon S3.",
        moment="20130524T000000Z",
        headers={"date": "Fri, 24 May 2013 00:00:00 GMT", "x-amz-storage-class": "REDUCED_REDUNDANCY"},
    )
    assert headers["authorization"].endswith(
        "Signature=98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"
    )


# --- files ------------------------------------------------------------------------------------------------


def a_file_sink(directory: Path, **changes: int) -> FileSink:
    return FileSink(
        str(directory / "events"), "usage", "worker1", **({"max_bytes": 4096, "max_files": 3} | changes)
    )


def files_of(directory: Path) -> list[Path]:
    return sorted((directory / "events").iterdir())


def test_batches_are_lines_of_one_file_that_any_gzip_reads(tmp_path: Path) -> None:
    sink = a_file_sink(tmp_path)
    for _ in range(2):
        sink.send(EVENTS, label=LABEL, timeout_s=10)
    sink.close()
    (file,) = files_of(tmp_path)
    assert values(file) == [1, 2, 1, 2]
    assert file.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "events").stat().st_mode & 0o777 == 0o700


def test_a_file_that_is_full_is_followed_by_another_and_the_oldest_go(tmp_path: Path) -> None:
    sink = a_file_sink(tmp_path, max_bytes=10)
    for number in range(5):
        sink.send([b'{"value":%d}' % number], label=LABEL, timeout_s=10)
    assert [values(file) for file in files_of(tmp_path)] == [[2], [3], [4]]


def test_another_run_begins_a_file_of_its_own_and_others_files_stay(tmp_path: Path) -> None:
    (tmp_path / "events").mkdir()
    other = tmp_path / "events" / "usage-20200101T000000.000Z+worker2.jsonl.gz"
    other.write_bytes(gzip.compress(b'{"value":9}'))
    for _ in range(4):
        sink = a_file_sink(tmp_path)
        sink.send(EVENTS, label=LABEL, timeout_s=10)
        sink.close()
    assert [values(file) for file in files_of(tmp_path)] == [[9], [1, 2], [1, 2], [1, 2]]


def test_a_disk_that_takes_no_more_leaves_whole_batches_only(tmp_path: Path) -> None:
    import resource
    import signal

    sink = a_file_sink(tmp_path)
    sink.send(EVENTS, label=LABEL, timeout_s=10)
    size = files_of(tmp_path)[0].stat().st_size
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 20, before[1]))
    try:
        with pytest.raises(PeerRefused):
            sink.send(EVENTS, label=LABEL, timeout_s=10)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert values(files_of(tmp_path)[0]) == [1, 2]
    sink.send(EVENTS, label=LABEL, timeout_s=10)
    assert [values(file) for file in files_of(tmp_path)] == [[1, 2], [1, 2]]


def test_a_directory_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "events").write_text("a file")
    with pytest.raises(PeerError, match="events"):
        a_file_sink(tmp_path).send(EVENTS, label=LABEL, timeout_s=10)


def test_credentials_of_another_region_are_another_signature(server: EventServer) -> None:
    server.s3_keys = (CREDENTIALS.access_key, CREDENTIALS.secret_key)
    elsewhere = replace(CREDENTIALS, region="us-west-2")
    an_s3(server, credentials=elsewhere).send(EVENTS, label=LABEL, timeout_s=10)
    assert "/us-west-2/s3/" in server.requests[0].headers["authorization"]
