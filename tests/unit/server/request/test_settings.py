from __future__ import annotations

from pathlib import Path

import pytest

from tensorlake.errors import InvalidInputError
from tensorlake_server import Settings


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.4", "lake.example.org"])
def test_an_address_that_others_reach_needs_tokens_or_public_read(
    host: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidInputError, match=r"--auth FILE .*--public-read"):
        Settings(url="lake", host=host)

    assert not Settings(url="lake", host=host, public_read=True).has_link
    auth = tmp_path / "tokens.json"
    auth.touch(mode=0o600)
    auth.write_text('{"version": 1, "tokens": []}')
    assert not Settings(url="lake", host=host, auth=auth).has_link


def test_nobody_unknown_writes_where_others_reach() -> None:
    with pytest.raises(InvalidInputError, match="--auth FILE"):
        Settings(url="lake", host="0.0.0.0", public_read=True, write=True)


def test_a_token_file_that_is_none_is_refused_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "tokens.json").touch(mode=0o600)
    (tmp_path / "tokens.json").write_text("tokens:")

    with pytest.raises(InvalidInputError, match="token file"):
        Settings(url="lake", auth=tmp_path / "tokens.json")


@pytest.mark.parametrize("derived", ["lake", "lake/", "lake/pets", "x/../lake/d", ".", "file://{}"])
def test_copies_of_views_lie_outside_the_lake(
    derived: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    derived = derived.format(tmp_path / "lake")

    with pytest.raises(InvalidInputError, match="outside the lake"):
        Settings(url="lake", derived=derived)
    with pytest.raises(InvalidInputError, match="outside the lake"):
        Settings(url=str(tmp_path / "lake"), derived=derived)

    assert Settings(url="lake", derived="lake-copies").derived == "lake-copies"


def test_copies_of_views_lie_outside_the_prefix_of_a_lake() -> None:
    for derived in ("s3://b/lake", "s3://b/lake/copies", "s3://b"):
        with pytest.raises(InvalidInputError, match="outside the lake"):
            Settings(url="s3://b/lake", derived=derived)

    assert Settings(url="s3://b/lake", derived="s3://b/copies").derived == "s3://b/copies"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.8.8.8"])
def test_a_loopback_address_is_private(host: str) -> None:
    settings = Settings(url="lake", host=host)

    assert settings.has_link
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
