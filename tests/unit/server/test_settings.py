from __future__ import annotations

import pytest

from tensorlake.errors import InvalidInputError
from tensorlake_server import Settings


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.4", "lake.example.org"])
def test_an_address_that_others_reach_needs_public_read(host: str) -> None:
    with pytest.raises(InvalidInputError, match="--public-read"):
        Settings(url="lake", host=host)

    assert not Settings(url="lake", host=host, public_read=True).needs_token


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.8.8.8"])
def test_a_loopback_address_is_private(host: str) -> None:
    settings = Settings(url="lake", host=host)

    assert settings.needs_token
    assert settings.is_loopback


def test_the_link_holds_the_token_in_its_fragment_which_is_never_sent() -> None:
    settings = Settings(url="lake", port=9000, token="s3cret")

    assert settings.link("vision/pets") == "http://127.0.0.1:9000/vision~pets#token=s3cret"


def test_secrets_stay_out_of_repr() -> None:
    settings = Settings(url="lake", token="s3cret", storage_options={"secret": "hidden"})

    assert "s3cret" not in repr(settings)
    assert "hidden" not in repr(settings)


def test_every_server_has_its_own_token() -> None:
    assert Settings(url="lake").token != Settings(url="lake").token
