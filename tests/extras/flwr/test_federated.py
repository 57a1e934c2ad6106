"""Flower: clients train on views of one dataset, and its FedAvg joins what they learned."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("flwr")
from flwr.client import NumPyClient
from flwr.common import FitIns, ndarrays_to_parameters, parameters_to_ndarrays
from flwr.server.strategy import FedAvg

pytestmark = [pytest.mark.extras, pytest.mark.filterwarnings("ignore")]  # of theirs

ROUNDS, RATE = 40, 0.3


class Learner(NumPyClient):
    """Learns the weights of a sum from the batches of a view, by gradient descent."""

    def __init__(self, view):
        self.view = view
        self.loader = view.loader(batch_size=8, shuffle=True, seed=1, rank=0, world_size=1)

    def fit(self, parameters, config):
        (weights,) = parameters
        for batch in self.loader:
            error = batch["x"] @ weights - batch["total"]
            weights = weights - RATE * batch["x"].T @ error / len(error)
        return [weights], len(self.view), {"epoch": config["epoch"]}


def test_clients_on_views_learn_together_what_none_was_given_alone(samples):
    """One client has the rows of a small sum, the other those of a large one."""
    views = [samples.query("WHERE total < 1.5"), samples.query("WHERE total >= 1.5")]
    assert all(len(view) for view in views)
    assert sum(map(len, views)) == len(samples)
    clients, strategy = [Learner(view).to_client() for view in views], FedAvg()
    weights = ndarrays_to_parameters([np.zeros(3, np.float32)])

    for epoch in range(ROUNDS):
        answers = [one.fit(FitIns(weights, {"epoch": epoch})) for one in clients]
        assert [answer.num_examples for answer in answers] == list(map(len, views))
        weights, _ = strategy.aggregate_fit(epoch, [(None, answer) for answer in answers], [])

    (learned,) = parameters_to_ndarrays(weights)
    assert learned.tolist() == pytest.approx([1.0, 1.0, 1.0], abs=0.05)
