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


class Stepper(Learner):
    """Takes one step over all rows of its view."""

    def fit(self, parameters, config):
        (weights,) = parameters
        return [stepped(weights, self.view)], len(self.view), {}


def stepped(weights, view):
    """The weights after a step over all rows, in float64."""
    x, total = view["x"][:].astype(np.float64), view["total"][:].astype(np.float64)
    return weights - RATE * x.T @ (x @ weights - total) / len(x)


def test_a_round_is_the_weighted_mean_and_the_step_over_all_rows(samples):
    views = [samples.query("WHERE total < 1.2"), samples.query("WHERE total >= 1.2")]
    assert len(views[0]) != len(views[1])
    given = np.array([0.3, -0.2, 0.9])
    answers = [
        Stepper(view).to_client().fit(FitIns(ndarrays_to_parameters([given]), {})) for view in views
    ]

    joined, _ = FedAvg().aggregate_fit(1, [(None, answer) for answer in answers], [])

    (found,) = parameters_to_ndarrays(joined)
    mean = sum(len(view) * stepped(given, view) for view in views) / len(samples)
    assert np.abs(found - mean).max() < 1e-6
    assert np.abs(found - stepped(given, samples)).max() < 1e-6
