"""The conformance suite over the wire: S3 by moto (obstore and s3fs), and the latency server by s3://."""

import itertools

import pytest

from tensorlake.storage import Store, open_store
from tensorlake.testing import StoreConformance, latency_server, s3_server


@pytest.fixture(scope="module")
def s3():
    with s3_server() as server:
        yield server


@pytest.fixture(scope="module")
def slow(tmp_path_factory):
    with latency_server(tmp_path_factory.mktemp("buckets"), latency_ms=1) as server:
        yield server


class TestS3Store(StoreConformance):
    @pytest.fixture
    def store(self, s3) -> Store:
        return open_store(s3.fresh_url(), storage_options=s3.storage_options)


@pytest.mark.slow  # the same store beneath, with fsspec between
class TestFsspecStore(StoreConformance):
    """S3 once more, through s3fs."""

    @pytest.fixture
    def store(self, s3) -> Store:
        return open_store(f"fsspec+{s3.fresh_url()}", storage_options=s3.storage_options)


class TestLatencyServerStore(StoreConformance):
    buckets = itertools.count()

    @pytest.fixture
    def store(self, slow) -> Store:
        url = slow.s3_url(f"bucket-{next(self.buckets)}/lake")
        return open_store(url, storage_options=slow.storage_options)
