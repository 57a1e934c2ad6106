from __future__ import annotations

import tomllib
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace

import pytest

from tensorlake.errors import InvalidInputError
from tensorlake_server import Settings
from tensorlake_server.__main__ import main
from tensorlake_server.auth.oidc import check_issuer_url
from tensorlake_server.settings.config import OPTIONS, print_config, resolve_options

SETTABLE = dict.fromkeys(OPTIONS)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "serve.toml"
    path.write_text('host = "::1"\nport = 1\nmax_streams = 1\nwrite = true\nauth = "t.json"\n')
    return path


def test_a_flag_wins_over_the_environment_and_that_over_the_file(file: Path) -> None:
    environment = {"TENSORLAKE_SERVE_PORT": "2", "TENSORLAKE_SERVE_MAX_STREAMS": "2"}

    found = resolve_options({**SETTABLE, "port": 3}, environment, file)

    assert found == {
        "host": "::1", "port": 3, "max_streams": 2, "write": True, "auth": Path("t.json")
    }  # fmt: skip


def test_a_flag_can_take_back_what_the_file_says(file: Path) -> None:
    assert resolve_options({**SETTABLE, "write": False}, {}, file)["write"] is False


def test_what_nobody_set_keeps_the_servers_default() -> None:
    assert resolve_options(SETTABLE, {}, None) == {}


@pytest.mark.parametrize(
    "text", ["colour = 1", "port = '1'", "port = true", "write = 1", "port =", "host = 1"]
)
def test_a_file_that_is_wrong_is_refused_by_name(tmp_path: Path, text: str) -> None:
    (tmp_path / "serve.toml").write_text(text)

    with pytest.raises(InvalidInputError, match=r"serve\.toml"):
        resolve_options(SETTABLE, {}, tmp_path / "serve.toml")


def test_a_file_that_is_not_there_is_said_in_words(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError) as refused:
        resolve_options(SETTABLE, {}, tmp_path / "serve.toml")

    said, what_to_do = str(refused.value).split("\n")
    assert said.endswith("serve.toml': No such file or directory")
    assert "TOML" in what_to_do


@pytest.mark.parametrize(("name", "text"), [("PORT", "x"), ("WRITE", "maybe"), ("MAX_STREAMS", "")])
def test_a_variable_that_is_wrong_is_refused_by_name(name: str, text: str) -> None:
    with pytest.raises(InvalidInputError, match=f"TENSORLAKE_SERVE_{name}"):
        resolve_options(SETTABLE, {f"TENSORLAKE_SERVE_{name}": text}, None)


@pytest.mark.parametrize(
    ("name", "told"),
    [("WRIT", "did you mean 'write'"), ("OIDC_AUDIENC", "did you mean 'oidc_audience'")],
)
def test_a_variable_that_is_no_option_is_never_passed_over(name: str, told: str) -> None:
    with pytest.raises(InvalidInputError, match=told) as caught:
        resolve_options(SETTABLE, {f"TENSORLAKE_SERVE_{name}": "1", "PATH": "/bin"}, None)

    assert f"TENSORLAKE_SERVE_{name}" in str(caught.value)


@pytest.mark.parametrize(
    "flags",
    [["--port", "65536"], ["--port", "-1"], ["--max-requests-per-s", "0"], ["--max-query-s", "nan"],
     ["--max-streams", "-1"], ["--header-patience-s", "inf"], ["--storage-option", "secret"]],
)  # fmt: skip
def test_a_value_that_means_nothing_is_wrong_usage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str]
) -> None:
    code = main([str(tmp_path), "--print-config", *flags])

    assert code == 2
    assert flags[0].lstrip("-").replace("-", "_") in capsys.readouterr().err.replace("-", "_")


@pytest.mark.parametrize("key", ["", "short"])
def test_a_signing_key_that_can_be_guessed_is_refused(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    key: str,
) -> None:
    monkeypatch.setenv("TENSORLAKE_SIGNING_KEY", key)

    code = main([str(tmp_path), "--print-config"])

    assert code == 2
    assert "openssl rand -hex 32" in capsys.readouterr().err


def test_credentials_in_the_address_are_not_printed() -> None:
    assert "s3cret" not in print_config(Settings(url="s3://ana:s3cret@bucket/lake"))


def test_what_is_printed_is_toml_without_secrets() -> None:
    settings = Settings(
        url='a"b', token="s3cret", signing_key=b"s3cret", storage_options={"secret": "s3cret"}
    )

    text = print_config(settings)

    assert "s3cret" not in text
    assert "storage option secret" in text
    assert tomllib.loads(text)["port"] == settings.port


def test_the_program_prints_its_configuration_and_stops(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TENSORLAKE_SERVE_PORT", "9000")

    code = main([str(tmp_path), "--print-config", "--max-streams", "7"])

    printed = tomllib.loads(capsys.readouterr().out)
    assert code == 0
    assert (printed["port"], printed["max_streams"]) == (9000, 7)


@pytest.mark.parametrize(
    ("option", "url"),
    [
        ("derived", "s3://ana:s3cret@bucket/copies?token=s3cret"),
        ("flows", "postgresql://ana:s3cret@host/flows"),
        ("flows", "postgresql://ana:s3cret/more#s3cret@host/flows"),
        ("oidc", "https://ana:s3cret@issuer.example/realm"),
    ],
)
def test_credentials_in_no_url_of_an_option_are_printed(option: str, url: str) -> None:
    plain = Settings(url="lake")  # one with flows needs DBOS
    settings = SimpleNamespace(**{one.name: getattr(plain, one.name) for one in fields(plain)})
    setattr(settings, option, url)

    printed = tomllib.loads(print_config(settings))

    assert "s3cret" not in str(printed)
    assert printed[option].startswith(url.partition("ana")[0])


def test_credentials_of_an_issuer_that_is_refused_are_not_in_the_error() -> None:
    with pytest.raises(InvalidInputError, match=r"http://issuer\.example") as refused:
        check_issuer_url("http://ana:s3cret@issuer.example/?key=s3cret")

    assert "s3cret" not in f"{refused.value}{refused.value.facts}"
