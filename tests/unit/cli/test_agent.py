"""The tools of ``tensorlake mcp``, without the protocol."""

import pytest

import tensorlake as tl
from tensorlake.cli.agent import Agent


def test_tools_read_a_dataset_by_name(pets):
    agent = Agent(pets.rpartition("/")[0])

    assert agent.datasets() == {"datasets": ["pets"]}
    assert agent.describe("pets", "main@1")["rows"] == 2
    found = agent.query("pets", "SELECT label, note WHERE label = 'dog'", limit=1)
    assert found["rows"][0]["label"] == "dog"
    assert (found["total"] >= found["returned"], found["returned"]) == (True, 1)
    assert agent.show("pets", "image", 0).startswith(b"\x89PNG")
    assert Agent(pets).datasets() == {"datasets": ["."]}
    assert Agent(pets).describe(".")["dataset"] == "."


def test_an_answer_ends_at_its_bound():
    ds = tl.create("memory://cli-agent/long", {"text": "str"})
    ds.extend({"text": ["x" * 3000] * 300})
    ds.commit("long")

    found = Agent("memory://cli-agent").query("long", "SELECT text", limit=300)

    assert found["total"] == 300
    assert 90 < found["returned"] < 100
    assert found["rows"][0]["text"].endswith("… 1,000 more characters")


@pytest.mark.parametrize("name", ["../pets", "memory://cli-agent/long", "/etc", ".", "none"])
def test_other_names_are_refused(pets, name):
    with pytest.raises(tl.InvalidInputError, match="there is no dataset"):
        Agent(pets.rpartition("/")[0]).query(name, "SELECT *")


def test_statements_and_other_datasets_are_refused(pets):
    agent = Agent(pets.rpartition("/")[0])

    for text in ("DELETE FROM this WHERE true", f"SELECT * FROM '{pets}'"):
        with pytest.raises(tl.QueryError):
            agent.query("pets", text)
    with pytest.raises(tl.InvalidInputError, match="from 1 to 1000"):
        agent.query("pets", "SELECT *", limit=0)


def test_the_command_names_its_extra(run, pets):
    try:
        import mcp  # noqa: F401 - whether it is there
    except ImportError:
        ended = run("mcp", pets)
        assert ended.code == 1
        assert "mcp" in ended.err
