"""How much of a bucket is listed, where only its first objects matter."""

from collections.abc import Generator

import pytest

import tensorlake as tl
from tensorlake.storage import Store, open_store, run, runtime
from tensorlake.testing import S3Server, s3_server

KEYS = 1001  # S3's page has 1000
SCHEMA = {"x": "int64"}


@pytest.fixture(scope="module")
def s3() -> Generator[S3Server]:
    with s3_server() as server:
        yield server


@pytest.fixture(scope="module")
def crowded(s3: S3Server) -> str:
    """A prefix with two pages of objects, none of them a dataset's."""
    url = s3.fresh_url()
    store = open_store(url, storage_options=s3.storage_options)
    puts = [lambda n=n: store.put(f"{n:04}.jpg", b"x") for n in range(KEYS)]
    run(runtime.gather_bounded(puts, limit=16))
    return url


@pytest.fixture(params=["", "fsspec+"], ids=["obstore", "s3fs"])
def url(request: pytest.FixtureRequest, crowded: str) -> str:
    return request.param + crowded


def test_a_creation_lists_one_page(s3: S3Server, url: str) -> None:
    before = s3.num_lists()

    with pytest.raises(tl.InvalidInputError, match=r"other files, such as '0000\.jpg'"):
        tl.create(url, SCHEMA, storage_options=s3.storage_options)

    assert s3.num_lists() - before == 1


def test_a_listing_goes_on_after_its_first_page(s3: S3Server, url: str) -> None:
    async def listed(store: Store, prefix: str) -> list[str]:
        return [meta.path async for meta in store.list(prefix)]

    store = open_store(url, storage_options=s3.storage_options)

    assert run(listed(store, "")) == [f"{n:04}.jpg" for n in range(KEYS)]
    assert run(listed(store, "000")) == [f"{n:04}.jpg" for n in range(10)]
    assert run(listed(store, "none/")) == []
