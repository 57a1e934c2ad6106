"""The tools of ``tensorlake mcp`` over a server: a model sees what its token may read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest

import tensorlake as tl
from tensorlake.cli.agent import Agent
from tensorlake.errors import AccessError, InvalidInputError, QueryError
from tensorlake_server import Settings, create_app
from tensorlake_server.auth.tokens import create_token
from tests.support.serving import listening

SCOPES = ("read", "read:pets", "write:pets@fix-*")
AgentOf = Callable[[str], Agent]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, dict[str, str]]]:
    """The address of a lake of two datasets, and a token of each scope."""
    root = tmp_path_factory.mktemp("agents")
    for name in ("pets", "salaries"):
        ds = tl.create(root / "lake" / name, {"x": "int64", "note": "str"}, durability="none")
        ds.extend({"x": [1, 2, 3], "note": [f"{name} {n}" for n in range(3)]})
        ds.commit("rows")
        ds.branch("fix-1")
    auth, now = root / "tokens.json", datetime.now(UTC)
    tokens = {
        scope: create_token(auth, name="model", scopes=[scope], expires=None, now=now)[0]
        for scope in SCOPES
    }
    settings = Settings(url=str(root / "lake"), auth=auth, write=True, signing_key=b"k" * 16)
    with listening(create_app(settings)) as address:
        yield address, tokens


@pytest.fixture
def agent_of(
    served: tuple[str, dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], Agent]:
    """Return the agent of a token, as the program has it: from the environment."""
    address, tokens = served

    def made(scope: str) -> Agent:
        monkeypatch.setenv("TENSORLAKE_TOKEN", tokens.get(scope, "wrong"))
        return Agent(address)

    return made


def test_only_datasets_of_the_scope_are_listed_and_found(agent_of: AgentOf):
    agent = agent_of("read:pets")

    assert agent.datasets() == {"datasets": ["pets"]}
    assert agent.query("pets", "SELECT note WHERE x > 2")["rows"] == [{"note": "pets 2"}]
    with pytest.raises(InvalidInputError, match="no dataset 'salaries'\ndatasets: pets"):
        agent.describe("salaries")
    with pytest.raises(InvalidInputError, match="no dataset 'salaries'"):
        agent.query("salaries", "SELECT note")


def test_a_query_reaches_no_dataset_beyond_the_scope(agent_of: AgentOf):
    for scope in ("read:pets", "read"):
        with pytest.raises(QueryError):
            agent_of(scope).query("pets", "SELECT s.note FROM salaries AS s")


def test_all_datasets_are_seen_with_a_scope_for_all(agent_of: AgentOf):
    assert agent_of("read").datasets() == {"datasets": ["pets", "salaries"]}
    assert agent_of("read").describe("salaries")["rows"] == 3


def test_a_token_that_may_write_does_not_write(agent_of: AgentOf):
    agent = agent_of("write:pets@fix-*")

    assert agent.query("pets", "SELECT x", version="fix-1")["total"] == 3
    with pytest.raises(QueryError):
        agent.query("pets", "UPDATE SET x = 0", version="fix-1")
    assert agent.query("pets", "SELECT x WHERE x = 0", version="fix-1")["total"] == 0


def test_a_wrong_token_is_refused_in_words(agent_of: AgentOf):
    with pytest.raises(AccessError, match="TENSORLAKE_TOKEN"):
        agent_of("wrong").datasets()
