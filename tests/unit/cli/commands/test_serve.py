"""serve: becomes the server."""

import subprocess
import sys

import pytest

import tensorlake as tl
from tests.support.commands import tensorlake


@pytest.mark.slow  # a server that starts from nothing
def test_serve_says_where_the_viewer_is_and_ends_with_a_signal(tmp_path):
    tl.create(str(tmp_path / "small.tl"), {"x": "int64"}).close()
    command = [sys.executable, "-m", "tensorlake", "serve", str(tmp_path), "--port", "0"]

    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            line = server.stdout.readline()
        finally:
            server.terminate()

    assert line.startswith("Viewer at http://127.0.0.1:")
    assert "small" in line


@pytest.mark.slow  # a server that starts from nothing
def test_serve_says_that_the_token_of_its_link_has_all_rights(tmp_path):
    auth = ["--auth", str(tmp_path / "tokens.toml")]
    create = ["token", "create", "--name", "ana", "--scope", "read", *auth]
    assert tensorlake(create, folder=tmp_path)[0] == 0
    tl.create(str(tmp_path / "lake" / "small.tl"), {"x": "int64"}).close()
    command = [sys.executable, "-m", "tensorlake", "serve", str(tmp_path / "lake"), "--port", "0"]

    with subprocess.Popen([*command, *auth], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            told = next(line for line in server.stdout if "has all rights" in line)
        finally:
            server.terminate()

    assert told.startswith("The token of this link has all rights: keep it to yourself.")


@pytest.mark.slow  # becomes another program
def test_a_negative_lifetime_of_a_token_is_refused_by_its_flag(tmp_path):
    create = ["token", "create", "--name", "ana", "--scope", "read", "--expires", "-90d"]

    status, printed = tensorlake([*create, "--auth", "tokens.toml"], folder=tmp_path)

    assert status == 2
    assert "--expires '-90d' is not a lifetime" in printed
    assert not (tmp_path / "tokens.toml").exists()


def test_serve_refuses_what_is_no_lake(tmp_path):
    status, printed = tensorlake(["serve", "nonsense://x", "--port", "0"], folder=tmp_path)

    assert status == 2
    assert "nonsense" in printed


@pytest.mark.slow
def test_token_makes_a_token_that_serve_lets_in_and_revokes_it(tmp_path):
    def run(*arguments):
        auth = ["--auth", str(tmp_path / "tokens.json")]
        status, printed = tensorlake(["token", *arguments, *auth], folder=tmp_path)
        assert status == 0, printed
        return printed.strip()

    token = run("create", "--name", "ci", "--scope", "read:pets")
    run("revoke", token.split("_")[1])

    assert token.startswith("tl_")
    assert "revoked" in run("ls")


@pytest.mark.slow
def test_token_changes_tokens_toml_where_no_file_is_named_and_serve_takes_it(tmp_path):
    create = ["token", "create", "--name", "ci", "--scope", "write:pets", "--expires", "90d"]

    status, printed = tensorlake(create, folder=tmp_path)
    served, config = tensorlake(
        ["serve", ".", "--auth", "tokens.toml", "--print-config"], folder=tmp_path
    )

    assert status == 0, printed
    assert "[[tokens]]" in (tmp_path / "tokens.toml").read_text()
    assert (served, "tokens.toml" in config) == (0, True)


@pytest.mark.slow
def test_serve_takes_an_identity_provider_with_its_audience(tmp_path):
    provider = ["serve", ".", "--oidc", "https://id", "--print-config"]
    status, printed = tensorlake(provider, folder=tmp_path)
    taken, config = tensorlake([*provider, "--oidc-audience", "lake"], folder=tmp_path)

    assert (status, taken) == (2, 0)
    assert "--oidc-audience" in printed
    assert 'oidc_audience = "lake"' in config


@pytest.mark.slow
def test_serve_has_the_flags_of_the_server_and_no_others(tmp_path):
    known = ["serve", ".", "--max-query-s", "10", "--presign", "--print-config"]
    status, printed = tensorlake([*known], folder=tmp_path)
    unknown, said = tensorlake(["serve", ".", "--max-qeury-s", "10"], folder=tmp_path)

    assert (status, unknown) == (2, 2)
    assert "refusing --presign" in printed  # a folder signs nothing
    assert "--max-qeury-s" in said
