"""docker/ where no engine runs: the files are what their schemas and a careful reader ask for."""

from __future__ import annotations

import json
import re
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[3]
DOCKER = ROOT / "docker"
INSTRUCTIONS = {
    "FROM", "RUN", "CMD", "EXPOSE", "ENV", "COPY", "ENTRYPOINT", "USER", "WORKDIR", "ARG",
    "STOPSIGNAL", "HEALTHCHECK",
}  # fmt: skip
PINNED = re.compile(r"[\w./-]+:v?\d+(\.\d+)+[\w.-]*")


@pytest.fixture(scope="module")
def steps() -> list[tuple[str, str]]:
    """The Dockerfile's instructions, each with what follows it."""
    lines = (DOCKER / "Dockerfile").read_text("utf-8").splitlines()
    text = "\n".join(line for line in lines if not line.startswith("#")).replace("\\\n", " ")
    return [(word, rest.strip()) for word, _, rest in (one.partition(" ") for one in text.split("\n")) if word]  # fmt: skip  # noqa: E501 one line reads as the rule it is


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    return yaml.safe_load((DOCKER / "compose.yaml").read_text("utf-8"))


def last_stage(steps: list[tuple[str, str]]) -> list[tuple[str, str]]:
    start = max(at for at, (word, _) in enumerate(steps) if word == "FROM")
    return steps[start:]


def test_the_compose_file_is_what_its_schema_allows() -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    checked = subprocess.run(
        [*command, str(DOCKER / "compose.yaml")], capture_output=True, text=True, check=False
    )

    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_every_image_is_pinned(steps: list[tuple[str, str]], compose: dict[str, Any]) -> None:
    bases = [rest.split()[0] for word, rest in steps if word == "FROM"]
    images = [one["image"] for one in compose["services"].values() if "image" in one]

    assert len(bases) == 3
    assert [one for one in bases + images if not PINNED.fullmatch(one)] == []


def test_every_instruction_is_one(steps: list[tuple[str, str]]) -> None:
    assert {word for word, _ in steps} <= INSTRUCTIONS


def test_what_is_copied_is_there(steps: list[tuple[str, str]]) -> None:
    stages = {rest.split(" AS ")[1] for word, rest in steps if word == "FROM" and " AS " in rest}
    copied = [rest.split() for word, rest in steps if word == "COPY"]
    between = {one[0].removeprefix("--from=") for one in copied if one[0].startswith("--")}
    outside = [path for one in copied if not one[0].startswith("--") for path in one[:-1]]
    ignored = (ROOT / ".dockerignore").read_text("utf-8").split()

    assert between <= stages
    assert [path for path in outside if not (ROOT / path).exists()] == []
    assert not set(outside) & set(ignored)


def test_the_server_runs_without_rights_and_says_whether_it_is_healthy(
    steps: list[tuple[str, str]],
) -> None:
    final = dict(last_stage(steps))

    assert final["USER"] not in ("root", "0")
    assert json.loads(final["ENTRYPOINT"]) == ["/usr/local/bin/start.sh"]  # no shell around it
    assert json.loads(final["HEALTHCHECK"].partition(" CMD ")[2])[-1].endswith("healthy.py")
    assert (DOCKER / "start.sh").stat().st_mode & stat.S_IXOTH


def test_two_replicas_share_what_makes_them_one(compose: dict[str, Any]) -> None:
    services = compose["services"]
    replicas = [one for one in services.values() if "build" in one]
    store = json.loads((DOCKER / "s3.json").read_text("utf-8"))["identities"][0]["credentials"][0]

    assert len(replicas) == 2
    first, second = (one["environment"] for one in replicas)
    assert first == second
    assert first["TENSORLAKE_SIGNING_KEY"]
    assert first["AWS_ACCESS_KEY_ID"] == store["accessKey"]
    assert first["AWS_SECRET_ACCESS_KEY"] == store["secretKey"]
    assert {port.partition(":")[0] for one in services.values() for port in one.get("ports", [])} == {"127.0.0.1"}  # fmt: skip  # noqa: E501 likewise
    assert all(one["read_only"] and one["cap_drop"] == ["ALL"] for one in replicas)
