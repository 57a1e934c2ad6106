"""200 clients of a real server, with a token each: a round passes, and idle ones cost nothing."""

from __future__ import annotations

import json
import logging
from collections import Counter
from datetime import UTC, datetime

import numpy as np
import psutil
import pytest

import tensorlake as tl

pytest.importorskip("flwr")
from flwr.common import ndarrays_to_parameters
from flwr.server.strategy import FedAvg

from tensorlake_server import Settings, create_app
from tensorlake_server.auth.tokens import create_token
from tests.extras.flwr.grid import InProcessGrid, run
from tests.support.serving import listening

pytestmark = [pytest.mark.extras, pytest.mark.filterwarnings("ignore")]  # of theirs

CLIENTS, CHOSEN = 200, 10
ROWS = [3 + number % 5 for number in range(CLIENTS)]


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A server of one dataset with a saved view of each client; its folder, address, tokens."""
    root = tmp_path_factory.mktemp("many")
    x = np.random.default_rng(3).random((sum(ROWS), 3))
    schema = {"x": tl.Array("float64", (3,)), "total": "float64", "client": "int64"}
    with tl.create(str(root / "lake/visits"), schema, durability="none") as ds:
        clients = np.repeat(np.arange(CLIENTS), ROWS)
        ds.extend({"x": x, "total": x.sum(axis=1), "client": clients})
        ds.commit("visits")
        for number in range(CLIENTS):
            ds.query(f"SELECT x, total WHERE client = {number}").save(f"c{number:03}")
    auth, now = root / "tokens.json", datetime.now(UTC)
    tokens = [
        create_token(
            auth, name=f"c{one:03}", scopes=[f"read:visits#c{one:03}"], expires=None, now=now
        )[0]
        for one in range(CLIENTS)
    ]
    settings = Settings(
        url=str(root / "lake"),
        auth=auth,
        audit_log=root / "audit.jsonl",
        derived=str(root / "derived"),
        max_requests_per_s=1e6,
    )
    logging.getLogger("flwr").setLevel(logging.CRITICAL)
    with listening(create_app(settings)) as address:
        yield root, address, tokens, x


def requests_of(root):
    """How many requests each token has made, by the server's log."""
    lines = (root / "audit.jsonl").read_text().splitlines()
    return Counter(json.loads(line)["who"].rpartition(":")[2] for line in lines)


def connections_to(address):
    port = int(address.rpartition(":")[2])
    found = psutil.Process().net_connections("tcp")
    return [
        one for one in found if one.raddr and one.raddr.port == port and one.status == "ESTABLISHED"
    ]


def step(view, weights, config):
    x, total = view["x"][:], view["total"][:]
    return [weights[0] - 0.3 * x.T @ (x @ weights[0] - total) / len(x)]


def trained(served, *, share, secure):
    """Train for one round; return the weights and the grid."""
    _, address, tokens, _ = served
    seen = []

    def view(context):
        number = context.node_config["partition-id"]
        return tl.open(f"{address}/visits#c{number:03}", token=tokens[number])

    strategy = FedAvg(
        fraction_fit=share,
        fraction_evaluate=0.0,
        min_available_clients=CLIENTS,
        initial_parameters=ndarrays_to_parameters([np.zeros(3)]),
        evaluate_fn=lambda number, weights, config: seen.append(weights[0]),
    )
    grid = InProcessGrid(tl.federated.client_app(view, step, secure=secure), CLIENTS)
    run(tl.federated.server_app(strategy, rounds=1, secure=secure), grid)
    return seen[-1], grid


def test_idle_clients_make_no_request_and_hold_no_connection(served):
    root, address, _, _ = served
    assert requests_of(root) == {}

    weights, grid = trained(served, share=CHOSEN / CLIENTS, secure="secagg+")

    chosen = {f"c{node - 1000:03}" for node in grid.asked}
    assert len(chosen) == CHOSEN
    assert weights.any()
    assert {*requests_of(root)} == chosen  # the other 190 have asked nothing
    copies = [one for one in (root / "derived").iterdir() if one.is_dir()]
    assert len(copies) == CHOSEN
    assert len(connections_to(address)) <= 16  # of this process, whatever the number of clients


def test_a_round_of_two_hundred_clients_is_the_mean_of_their_rows(served):
    _, _, _, x = served
    parts = np.split(x, np.cumsum(ROWS)[:-1])
    each = [0.3 * one.T @ one.sum(axis=1) / len(one) for one in parts]  # from zero
    mean = sum(rows * one for rows, one in zip(ROWS, each, strict=True)) / sum(ROWS)
    secure = {"secagg+": {"num_shares": 7, "reconstruction_threshold": 5, "max_weight": 7.0}}

    plain, grid = trained(served, share=1.0, secure=None)
    masked, _ = trained(served, share=1.0, secure=secure)

    assert sorted(grid.asked) == [1000 + one for one in range(CLIENTS)]
    assert np.abs(plain - mean).max() < 1e-6
    assert np.abs(masked - mean).max() <= 3 * CLIENTS * 8.0 * 7 / (2**22 * sum(ROWS))
