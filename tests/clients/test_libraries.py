"""Client libraries in use work on the reference server unchanged."""

from __future__ import annotations

from collections.abc import Iterator

import greenstalk
import pystalkd.Beanstalkd
import pytest

from conformance.target.builtin import BuiltIn


@pytest.fixture
def server() -> Iterator[tuple[str, int]]:
    target = BuiltIn()
    address = target.address
    assert not isinstance(address, str)
    yield address
    target.close()


def test_greenstalk(server: tuple[str, int]) -> None:
    with greenstalk.Client(server, use="jobs", watch="jobs") as client:
        first = client.put("hello", priority=5, delay=0, ttr=60)
        job = client.reserve(timeout=0)
        assert (job.id, job.body) == (first, "hello")
        assert client.stats_job(job)["state"] == "reserved"
        client.release(job, priority=7)
        assert client.stats_job(first)["pri"] == 7
        job = client.reserve(timeout=0)
        client.bury(job)
        assert client.peek_buried().id == first
        assert client.kick(10) == 1
        job = client.reserve_job(first)
        client.touch(job)
        client.delete(job)
        with pytest.raises(greenstalk.NotFoundError):
            client.peek(first)
        client.put("soon", ttr=1)
        client.reserve(timeout=0)
        with pytest.raises(greenstalk.DeadlineSoonError):
            client.reserve(timeout=0)
        with pytest.raises(greenstalk.JobTooBigError):
            client.put("x" * 65536)
        assert client.stats_tube("jobs")["current-jobs-reserved"] == 1
        assert client.stats()["total-jobs"] == 2
        assert set(client.tubes()) == {"default", "jobs"}


def test_pystalkd(server: tuple[str, int]) -> None:
    connection = pystalkd.Beanstalkd.Connection(*server)
    connection.use("jobs")
    connection.watch("jobs")
    connection.ignore("default")
    number = connection.put("hello", priority=3)
    job = connection.reserve(timeout=0)
    assert (job.job_id, job.body) == (number, "hello")
    job.release(priority=9)
    assert connection.peek_ready().job_id == number
    job = connection.reserve(timeout=0)
    job.touch()
    job.bury()
    assert connection.kick(1) == 1
    assert connection.stats_job(number)["buries"] == 1
    job = connection.reserve(timeout=0)
    job.delete()
    assert connection.reserve(timeout=0) is None
    connection.put("soon", ttr=1)
    connection.reserve(timeout=0)
    with pytest.raises(pystalkd.Beanstalkd.DeadlineSoon):
        connection.reserve(timeout=0)
    assert connection.stats_tube("jobs")["current-jobs-reserved"] == 1
    connection.close()
