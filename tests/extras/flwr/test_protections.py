"""What a mean is made of: shapes and types, strategies, settings, and clients that were refused."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.errors import InvalidInputError

pytest.importorskip("flwr")
from flwr.client import NumPyClient
from flwr.client.mod import secaggplus_mod
from flwr.clientapp import ClientApp
from flwr.common import ndarrays_to_parameters
from flwr.server import strategy as strategies
from flwr.server.strategy import FedAvg

from tests.extras.flwr.grid import InProcessGrid, read, run

pytestmark = [pytest.mark.extras, pytest.mark.filterwarnings("ignore")]  # of theirs

LENGTHS = (4, 6, 10)
DP = {"noise_multiplier": 0.0, "clipping_norm": 100.0, "num_sampled_clients": 3}
LOCAL = {"clipping_norm": 100.0, "sensitivity": 0.0, "epsilon": 1.0, "delta": 1e-5}
SECAGG = {"max_weight": 10}
STEP = 3 * 3 * 8.0 * 10 / (2**22 * 20)  # how far a mean of SecAgg+ may be: the how-to page
EACH = [None, {"secagg+": SECAGG}, {"dp": DP}, {"local-dp": LOCAL}, {"secagg+": {}, "dp": DP}]


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    monkeypatch.setattr(logging.getLogger("flwr"), "level", logging.CRITICAL)
    state = np.random.get_state()  # noqa: NPY002 - what Flower draws from
    yield
    np.random.set_state(state)  # noqa: NPY002 - likewise


@dataclass
class Left:
    """The weights before the first round and after each, and the errors of clients."""

    weights: list[list[np.ndarray]]
    errors: list[str]


def federate(
    samples, train, start, *, secure=None, clients=..., kind=FedAvg, rows=LENGTHS, rounds=1
):
    """Train; ``clients`` are the ``secure`` of the clients, where theirs differ."""
    seen, stops = [], np.cumsum(rows)
    made = [secure] * len(rows) if clients is ... else clients
    strategy = kind(
        initial_parameters=None if start is None else ndarrays_to_parameters(start),
        min_available_clients=len(rows),
        min_fit_clients=len(rows),
        fraction_evaluate=0.0,
        evaluate_fn=lambda number, weights, config: seen.append([one.copy() for one in weights]),
    )

    def view(context):
        place = context.node_config["partition-id"]
        return samples[stops[place] - rows[place] : stops[place]]

    apps = [tl.federated.client_app(view, train, secure=one) for one in made]
    grid = InProcessGrid(lambda m, c: apps[c.node_config["partition-id"]](m, c), len(rows))
    run(tl.federated.server_app(strategy, rounds=rounds, secure=secure), grid)
    replies = [read(one) for one in grid.arrived]
    return Left(seen, [one.error.reason for one in replies if one.has_error()])


def returns(*arrays):
    return lambda view, weights, config: list(arrays)


@pytest.mark.parametrize("secure", EACH)
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_weights_come_back_in_the_shapes_and_float_types_of_the_start(samples, secure, kind):
    start = [np.zeros(2, kind), np.array(0, kind), np.zeros((0, 4), kind)]

    left = federate(samples, returns(*(one + kind(3) for one in start)), start, secure=secure)

    found = left.weights[-1]
    assert left.errors == []
    assert [(one.shape, one.dtype) for one in found] == [(one.shape, one.dtype) for one in start]
    assert found[0].tolist() == pytest.approx([3.0, 3.0], abs=STEP * 2)
    assert float(found[1]) == pytest.approx(3.0, abs=STEP * 2)


@pytest.mark.parametrize(
    "secure", [{"dp": {**DP, "clipping_norm": 0.5}}, {"local-dp": {**LOCAL, "clipping_norm": 0.5}}]
)
def test_a_number_of_no_dimension_is_cut_to_the_norm(samples, secure):
    left = federate(samples, returns(np.array(3.0)), [np.array(0.0)], secure=secure)

    assert float(left.weights[-1][0]) == pytest.approx(0.5)


@pytest.mark.parametrize("secure", EACH)
def test_the_mean_of_integers_is_not_an_integer(samples, secure):
    def whole(view, weights, config):
        return [np.array([1, 2, int(len(view) > 4)])]

    found = federate(samples, whole, [np.zeros(3, np.int64)], secure=secure).weights[-1][0]

    part = 2 / 3 if secure and "dp" in secure else 16 / 20  # with "dp" all clients count the same
    assert found.tolist() == pytest.approx([1, 2, part], abs=STEP * 2)


@pytest.mark.parametrize("secure", [None, {"secagg+": SECAGG}])
@pytest.mark.parametrize(
    ("train", "reason"),
    [
        (lambda view, weights, config: weights[0], "train returned ndarray: return a list"),
        (returns(), r"arrays of shapes \[\], and was given \[\(3,\)\]"),
        (returns(np.zeros(4)), r"arrays of shapes \[\(4,\)\], and was given \[\(3,\)\]"),
        (returns(np.zeros(3, complex)), "train returned an array of complex128: return real"),
        (
            lambda view, weights, config: [np.ones(3 if len(view) == 10 else 1)],
            r"arrays of shapes \[\(1,\)\]",
        ),
    ],
)
def test_a_result_that_is_not_a_list_of_weights_of_the_given_shapes_is_refused(
    samples, secure, train, reason
):
    left = federate(samples, train, [np.full(3, 0.5)], secure=secure)

    assert left.weights[-1][0].shape == (3,)
    assert left.errors
    for one in left.errors:
        assert re.search(reason, one)


@pytest.mark.parametrize("secure", EACH[1:])
def test_a_weight_that_is_not_finite_is_named_so(samples, secure):
    left = federate(samples, returns(np.array([1.0, np.nan])), [np.zeros(2)], secure=secure)

    assert np.array_equal(left.weights[-1][0], np.zeros(2))
    assert len(left.errors) == 3
    assert all("has nan" in one and "has diverged" in one for one in left.errors)


@pytest.mark.parametrize("secure", EACH[2:])
@pytest.mark.parametrize("start", [np.zeros(3, np.float32), np.array([0.3, -2.0, 1.0])])
def test_a_client_that_changes_nothing_is_in_the_mean(samples, secure, start):
    def train(view, weights, config):
        return [weights[0] + (0 if len(view) == 4 else weights[0].dtype.type(1))]

    left = federate(samples, train, [start], secure=secure)

    part = 16 / 20 if "local-dp" in secure else 2 / 3
    assert left.errors == []
    assert left.weights[-1][0] == pytest.approx(start + part, abs=1e-5)


@pytest.mark.parametrize("secure", [None, {"secagg+": SECAGG}, {"local-dp": LOCAL}])
def test_a_round_without_rows_changes_nothing(samples, secure):
    left = federate(samples, returns(np.ones(2)), [np.zeros(2)], secure=secure, rows=(0, 0, 0))

    assert [one[0].tolist() for one in left.weights] == [[0, 0], [0, 0]]


def test_a_round_of_too_few_rows_for_max_weight_changes_nothing(samples):
    secure = {"secagg+": {"max_weight": 1e12}}

    left = federate(samples, returns(np.ones(2)), [np.zeros(2)], secure=secure)

    assert left.weights[-1][0].tolist() == [0, 0]


@pytest.mark.parametrize(
    ("secure", "other"),
    [
        ({"dp": DP}, None),
        ({"local-dp": LOCAL}, None),
        ({"dp": DP}, {"local-dp": LOCAL}),
        ({"secagg+": {}, "dp": DP}, {"secagg+": {"max_weight": 10}}),
        ("secagg+", None),
        (None, "secagg+"),
        (None, {"dp": DP}),
        ({"secagg+": SECAGG}, {"secagg+": SECAGG, "dp": DP}),
    ],
)
def test_clients_of_other_protections_say_so_and_change_nothing(samples, secure, other):
    left = federate(samples, returns(np.ones(2)), [np.zeros(2)], secure=secure, clients=[other] * 3)

    assert left.weights[-1][0].tolist() == [0, 0]
    assert len(left.errors) == 3
    assert all("give secure= the same names in both" in one for one in left.errors)


@pytest.mark.parametrize("secure", [{"dp": DP}, {"secagg+": {}, "dp": DP}, {"local-dp": LOCAL}])
def test_an_answer_that_does_not_state_the_protection_is_not_in_the_mean(samples, secure):
    """A client that Flower alone has made, which does not read what the server states."""

    class Foreign(NumPyClient):
        def fit(self, parameters, config):
            return [np.full(2, 3.0)], 1, {}

    masked = [secaggplus_mod] if "secagg+" in secure else []
    foreign = ClientApp(lambda context: Foreign().to_client(), mods=masked)
    own = tl.federated.client_app(lambda context: samples, returns(np.ones(2)), secure=secure)
    seen = []
    strategy = FedAvg(
        initial_parameters=ndarrays_to_parameters([np.zeros(2)]),
        min_fit_clients=3,
        min_available_clients=3,
        fraction_evaluate=0.0,
        evaluate_fn=lambda number, weights, config: seen.append(weights[0].tolist()),
    )

    def either(message, context):
        return (own if context.node_config["partition-id"] else foreign)(message, context)

    run(tl.federated.server_app(strategy, rounds=1, secure=secure), InProcessGrid(either, 3))

    assert seen[-1] == ([1, 1] if "local-dp" in secure else [0, 0])


class Saving(strategies.FedProx):
    """Of ours: it inherits the mean."""


class Cutting(FedAvg):
    def aggregate_fit(self, server_round, results, failures):
        return super().aggregate_fit(server_round, results[:1], failures)


def of_kind(name):
    kind = {"Saving": Saving, "Cutting": Cutting}.get(name) or getattr(strategies, name)
    more = {"FedProx": {"proximal_mu": 0.1}, "Saving": {"proximal_mu": 0.1}}.get(name, {})
    return kind(initial_parameters=ndarrays_to_parameters([np.zeros(2)]), **more)


@pytest.mark.parametrize(
    "name", ["Krum", "FedMedian", "FedTrimmedAvg", "Bulyan", "QFedAvg", "Cutting"]
)
@pytest.mark.parametrize("secure", [{"secagg+": SECAGG}, {"dp": DP}])
def test_a_strategy_that_needs_each_update_is_refused_by_name(name, secure):
    with pytest.raises(InvalidInputError, match=f"strategy={name}: '.*' is right for a weighted"):
        tl.federated.server_app(of_kind(name), rounds=1, secure=secure)

    tl.federated.server_app(of_kind(name), rounds=1, secure={"local-dp": LOCAL})


@pytest.mark.parametrize("name", ["FedAvgM", "FedAdam", "FedYogi", "FedAdagrad"])
def test_a_strategy_that_makes_more_of_the_mean_is_for_secagg_alone(name):
    tl.federated.server_app(of_kind(name), rounds=1, secure="secagg+")

    with pytest.raises(InvalidInputError, match=f"strategy={name}: 'dp' is right for a weighted"):
        tl.federated.server_app(of_kind(name), rounds=1, secure={"dp": DP})


@pytest.mark.parametrize("name", ["FedAvg", "FedProx", "FaultTolerantFedAvg", "Saving"])
def test_a_strategy_of_the_mean_goes_with_each_protection(name):
    for secure in EACH:
        tl.federated.server_app(of_kind(name), rounds=1, secure=secure)


@pytest.mark.parametrize("kind", [strategies.FedAvgM, strategies.FedAdam])
def test_momentum_over_a_mean_of_secagg_is_that_over_the_mean(samples, kind):
    def train(view, weights, config):
        return [weights[0] + len(view) / 10, weights[1] - 1]

    start = [np.zeros(2), np.array(0.5)]
    plain, masked = (
        federate(samples, train, start, secure=secure, kind=kind, rounds=3).weights[-1]
        for secure in (None, {"secagg+": SECAGG})
    )

    for one, other in zip(plain, masked, strict=True):
        assert other.shape == one.shape
        assert other == pytest.approx(one, abs=1e-3)


@pytest.mark.parametrize(
    ("name", "setting", "value", "message"),
    [
        ("secagg+", "clipping_range", np.inf, "give a finite number"),
        ("secagg+", "max_weight", np.nan, "give a finite number"),
        ("secagg+", "timeout", "x", "give a finite number above 0"),
        ("secagg+", "quantization_range", 2**31, "give an integer above 0 and below 2147483648"),
        ("dp", "noise_multiplier", np.nan, "give a finite number"),
        ("dp", "num_sampled_clients", 2.5, "give an integer"),
        ("dp", "num_sampled_clients", True, "give an integer"),
        ("local-dp", "clipping_norm", np.nan, "give a finite number"),
        ("local-dp", "epsilon", 0, "give a finite number above 0"),
        ("local-dp", "epsilon", np.nan, "give a finite number above 0"),
        ("local-dp", "delta", 2, "give a finite number above 0 and below 1"),
    ],
)
def test_a_setting_that_gives_no_number_is_refused(name, setting, value, message):
    secure = {name: {**{"dp": DP, "local-dp": LOCAL}.get(name, {}), setting: value}}

    for app in (
        lambda: tl.federated.server_app(FedAvg(), rounds=1, secure=secure),
        lambda: tl.federated.client_app(None, None, secure=secure),
    ):
        with pytest.raises(InvalidInputError, match=f"\\['{setting}'\\]=.*: {message}$"):
            app()


def test_a_setting_of_a_strategy_is_not_taken_for_a_protection(samples):
    def kind(**named):
        return FedAvg(on_fit_config_fn=lambda number: {"clipping_norm": 0.5}, **named)

    left = federate(
        samples, returns(np.ones(2)), [np.zeros(2)], secure={"secagg+": SECAGG}, kind=kind
    )

    assert left.errors == []


def test_numbers_of_numpy_are_settings(samples):
    secure = {"secagg+": {"max_weight": np.int64(10), "clipping_range": np.float32(8)}}

    left = federate(samples, returns(np.ones(2)), [np.zeros(2)], secure=secure)

    assert left.errors == []
    assert left.weights[-1][0].tolist() == pytest.approx([1, 1], abs=STEP)


def test_sums_beyond_the_modulus_and_a_round_of_one_are_refused(samples):
    small = {"secagg+": {"max_weight": 10, "modulus_range": 2**23}}

    with pytest.raises(InvalidInputError, match=r"3 clients, and the sums .* fewer than .* = 2"):
        federate(samples, returns(np.ones(2)), [np.zeros(2)], secure=small)
    with pytest.raises(InvalidInputError, match="a round has 1 client, and 'secagg\\+' needs 2"):
        federate(samples, returns(np.ones(2)), [np.zeros(2)], secure="secagg+", rows=(4,))


def test_a_run_without_weights_to_begin_with_is_refused(samples):
    with pytest.raises(InvalidInputError, match="FedAvg has no weights to begin with"):
        federate(samples, returns(np.ones(2)), None)


@pytest.mark.parametrize(
    "secure", [{"dp": {**DP, "noise_multiplier": 1.0}}, {"local-dp": {**LOCAL, "sensitivity": 1.0}}]
)
def test_a_seed_of_a_script_does_not_choose_the_noise(samples, secure):
    def train(view, weights, config):
        np.random.seed(0)  # noqa: NPY002 - what Flower draws from
        return [np.ones(2)]

    first, second = (
        federate(samples, train, [np.zeros(2)], secure=secure).weights[-1][0] for _ in range(2)
    )

    assert not np.array_equal(first, second)
