from __future__ import annotations

import stat
import tomllib
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tensorlake.errors import AccessError, InvalidInputError, NotFoundError
from tensorlake_server import token_command
from tensorlake_server.auth.tokens import (
    Tokens,
    create_token,
    parse_lifetime,
    read_tokens,
    revoke_token,
)

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tokens.json"


def make(path: Path, *, name: str = "ci", scope: str = "read:pets") -> str:
    secret, _ = create_token(path, name=name, scopes=[scope], expires=None, now=NOW)
    return secret


def test_a_token_opens_and_the_file_does_not_hold_it(path: Path) -> None:
    secret = make(path)

    found = Tokens(path).by_secret(secret)

    assert found is not None
    assert found.scopes == ("read:pets",)
    assert secret not in path.read_text()
    assert secret.split("_", 2)[2] not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_only_the_very_token_opens(path: Path) -> None:
    secret = make(path)
    tokens = Tokens(path)

    for wrong in (
        "",
        secret[:-1],
        secret + "A",
        secret.swapcase(),
        f"{secret[:-1]}é",
        " " + secret,
    ):
        assert tokens.by_secret(wrong) is None


def test_a_digest_is_no_token(path: Path) -> None:
    make(path)
    (stored,) = read_tokens(path)

    assert Tokens(path).by_secret(stored.digest) is None
    assert Tokens(path).by_secret(f"tl_{stored.id}_{stored.digest[:43]}") is None


def test_a_revoked_token_is_known_but_opens_nothing_from_the_next_look_on(path: Path) -> None:
    secret, stored = create_token(path, name="ci", scopes=["read"], expires=None, now=NOW)
    tokens = Tokens(path)
    assert tokens.by_secret(secret) == stored

    revoke_token(path, stored.id, now=NOW)

    known = tokens.by_secret(secret)
    assert known is not None
    assert "revoked" in (known.why_not(NOW) or "")


def test_a_token_expires_at_its_moment(path: Path) -> None:
    lifetime = parse_lifetime("12h")
    assert lifetime is not None
    _, stored = create_token(path, name="ci", scopes=["read"], expires=NOW + lifetime, now=NOW)

    assert stored.why_not(NOW + timedelta(hours=12, seconds=-1)) is None
    assert "expired" in (stored.why_not(NOW + timedelta(hours=12)) or "")


def test_two_programs_do_not_change_the_file_at_once(path: Path) -> None:
    make(path)
    before = path.read_bytes()
    path.with_name("tokens.json.new").touch()

    with pytest.raises(AccessError, match="another program"):
        make(path, name="other")

    assert path.read_bytes() == before


def test_a_failed_change_leaves_the_file_as_it_was(path: Path) -> None:
    make(path)
    before = path.read_bytes()

    with pytest.raises(NotFoundError, match="no token 'nobody'"):
        revoke_token(path, "nobody", now=NOW)
    with pytest.raises(InvalidInputError, match="scope"):
        make(path, scope="everything")

    assert path.read_bytes() == before
    assert [one.name for one in path.parent.iterdir()] == ["tokens.json"]


@pytest.mark.parametrize("text", ["", "0d", "90", "-1d", "1y", "d", "999999d", "99999999999d"])
def test_what_is_no_lifetime_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match=r"--expires .* is not a lifetime of"):
        parse_lifetime(text)


def test_the_command_shows_a_token_once(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = token_command.main(
        ["create", "--auth", str(path), "--name", "ci", "--scope", "write:pets@fix-*"]
    )
    secret = capsys.readouterr().out.strip()
    listed = token_command.main(["ls", "--auth", str(path), "--json"])
    shown = capsys.readouterr().out

    assert (made, listed) == (0, 0)
    (stored,) = read_tokens(path)
    assert Tokens(path).by_secret(secret) == stored
    assert secret not in shown
    assert stored.digest not in shown
    assert "write:pets@fix-*" in shown


def test_the_command_revokes(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make(path)
    (stored,) = read_tokens(path)

    assert token_command.main(["revoke", stored.id, "--auth", str(path)]) == 0
    assert token_command.main(["revoke", "none", "--auth", str(path)]) == 1
    assert token_command.main(["ls", "--auth", str(path)]) == 0

    assert "was revoked on" in capsys.readouterr().out


def test_a_scope_that_is_none_is_wrong_usage(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = token_command.main(["create", "--auth", str(path), "--name", "x", "--scope", "all"])

    assert code == 2
    assert "'all' is not a scope" in capsys.readouterr().err
    assert not path.exists()


def test_a_file_named_toml_is_toml_and_holds_the_same(tmp_path: Path) -> None:
    path = tmp_path / "tokens.toml"
    name = 'Zoë "z" \\ \n\x7f 😀'
    secret, stored = create_token(
        path, name=name, scopes=["read:pets", "write:a@fix-*"], expires=NOW, now=NOW
    )
    create_token(path, name="ci", scopes=["read"], expires=None, now=NOW)
    revoke_token(path, stored.id, now=NOW)

    first, second = read_tokens(path)

    assert tomllib.loads(path.read_text())["tokens"][0]["name"] == name
    assert (first.name, first.scopes, first.expires) == (name, stored.scopes, NOW)
    assert (second.expires, second.revoked, first.revoked) == (None, None, NOW)
    assert Tokens(path).by_secret(secret) == first


def test_json_in_a_file_named_toml_is_read_and_becomes_toml(path: Path, tmp_path: Path) -> None:
    secret = make(path)
    old = path.rename(tmp_path / "tokens.toml")

    assert Tokens(old).by_secret(secret) is not None
    make(old, name="second")
    assert len(tomllib.loads(old.read_text())["tokens"]) == 2
    assert Tokens(old).by_secret(secret) is not None


@pytest.mark.parametrize("mode", [0o644, 0o604, 0o602, 0o660, 0o666])
def test_a_token_file_that_others_can_read_or_change_is_refused(path: Path, mode: int) -> None:
    secret = make(path)
    tokens = Tokens(path)
    assert tokens.by_secret(secret) is not None
    path.chmod(mode)

    with pytest.raises(AccessError, match=rf"mode {mode:04o}(?s:.*)chmod 600"):
        tokens.by_secret(secret)


def test_a_token_file_that_a_group_reads_is_taken(path: Path) -> None:
    secret = make(path)
    path.chmod(0o440)

    assert Tokens(path).by_secret(secret) is not None
