"""``secure=``: what reaches the server, and what the mean is, with Flower's own protections."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.errors import InvalidInputError, MissingExtraError

pytest.importorskip("flwr")
from flwr.common import bytes_to_ndarray, ndarrays_to_parameters
from flwr.server.strategy import FedAvg

from tests.extras.flwr.grid import InProcessGrid, read, run

pytestmark = [pytest.mark.extras, pytest.mark.filterwarnings("ignore")]  # of theirs

LENGTHS = (4, 6, 7, 9, 14)  # rows of each client
STEPS, RANGE, MODULUS = 2**22, 8.0, 2**32  # Flower's quantisation by default
MASKED, STAGE = "secaggplus_configs", "stage"


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    """Flower's log has a line for each stage; its noise and its rounding are of NumPy's state."""
    monkeypatch.setattr(logging.getLogger("flwr"), "level", logging.CRITICAL)
    state = np.random.get_state()  # noqa: NPY002 - what Flower draws from
    np.random.seed(11)  # noqa: NPY002 - likewise
    yield
    np.random.set_state(state)  # noqa: NPY002 - likewise


@dataclass
class Trained:
    """What a run has left.

    Attributes:
        weights: The weights before the first round and after each.
        grid: The messages.
    """

    weights: list[np.ndarray]
    grid: InProcessGrid


def part(samples, context):
    """The rows of a client, by its place."""
    place = context.node_config["partition-id"]
    return samples[sum(LENGTHS[:place]) : sum(LENGTHS[: place + 1])]


def stepped(view, weights):
    x, total = view["x"][:].astype(np.float64), view["total"][:].astype(np.float64)
    return weights - 0.3 * x.T @ (x @ weights - total) / len(x)


def step(view, weights, config):
    return [stepped(view, weights[0])]


def trained(samples, *, secure, client=..., train=step, start=None, rounds=1, answers=None):
    """Train on five clients; ``client`` is the ``secure`` of theirs, where it differs."""
    start = np.array([0.3, -0.2, 0.9]) if start is None else start
    seen = []
    strategy = FedAvg(
        initial_parameters=ndarrays_to_parameters([start]),
        min_available_clients=len(LENGTHS),
        fraction_evaluate=0.0,
        evaluate_fn=lambda number, weights, config: seen.append(weights[0]),
    )
    app = tl.federated.client_app(
        lambda context: part(samples, context), train, secure=secure if client is ... else client
    )
    grid = InProcessGrid(app, len(LENGTHS))
    if answers is not None:
        grid.answers = answers
    run(tl.federated.server_app(strategy, rounds=rounds, secure=secure), grid)
    return Trained(seen, grid)


def mean_of(samples, places, start=(0.3, -0.2, 0.9)):
    """The weighted mean of what some clients learn, by NumPy alone."""
    views = [samples[sum(LENGTHS[:one]) : sum(LENGTHS[: one + 1])] for one in places]
    return sum(len(view) * stepped(view, np.array(start)) for view in views) / sum(map(len, views))


def bound_of(places, max_weight):
    """How far the mean of whole numbers may be from the mean: see the how-to page."""
    rows = sum(LENGTHS[one] for one in places)
    return 3 * len(places) * RANGE * max_weight / (STEPS * rows)


@pytest.mark.parametrize("max_weight", [14.0, 1000.0])
def test_a_round_with_secagg_is_the_weighted_mean_to_its_quantisation(samples, max_weight):
    everyone = range(len(LENGTHS))

    found = trained(samples, secure={"secagg+": {"max_weight": max_weight}}).weights[-1]

    difference = np.abs(found - mean_of(samples, everyone)).max()
    assert 0 < difference <= bound_of(everyone, max_weight)


def test_without_protection_a_round_is_the_weighted_mean(samples):
    found = trained(samples, secure=None).weights[-1]

    assert np.abs(found - mean_of(samples, range(len(LENGTHS)))).max() < 1e-12


def of_waves():
    """Five learned vectors of 4,096 weights, which do not depend on chance."""

    def train(view, weights, config):
        return [np.sin(len(view) * np.arange(4096.0))]

    return train


def masked_of(message):
    """The vector that a client uploads, of the messages that have one."""
    record = message.content.config_records.get(MASKED, {})
    found = record.get("masked_params")
    return None if found is None else [bytes_to_ndarray(one) for one in found]


def test_the_server_sees_no_update_of_a_client(samples):
    train, start = of_waves(), np.zeros(4096)
    own = {np.sin(rows * np.arange(4096.0)).tobytes() for rows in LENGTHS}

    plain = trained(samples, secure=None, train=train, start=start).grid.arrived
    first, second = (
        trained(samples, secure="secagg+", train=train, start=start).grid.arrived for _ in range(2)
    )

    assert sum(one in sent for one in own for sent in plain) == len(LENGTHS)  # so it would be seen
    assert not any(one in sent for one in own for sent in first)
    messages = [read(sent) for sent in first]
    assert all(not arrays for one in messages for arrays in one.content.array_records.values())
    vectors = [np.concatenate(one) for one in map(masked_of, messages) if one is not None]
    assert len(vectors) == len(LENGTHS)
    again = [masked_of(read(sent)) for sent in second]
    again = [np.concatenate(one) for one in again if one is not None]
    for vector in vectors:  # as if each number had been drawn: its update does not show
        placed = np.sort(vector[1:] / MODULUS)
        even = (np.arange(len(placed)) + 0.5) / len(placed)
        assert np.abs(placed - even).max() < 0.05  # by chance: once in 10⁸
        assert all((vector != other).mean() > 0.99 for other in again)


def test_a_client_answers_no_server_that_leaves_the_protection_out(samples):
    dp = {"noise_multiplier": 1.0, "clipping_norm": 1.0, "num_sampled_clients": 5}
    for secure in ("secagg+", {"dp": dp}):
        left = trained(samples, secure=None, client=secure)

        replies = [read(sent) for sent in left.grid.arrived]
        assert len(replies) == len(LENGTHS)
        assert all(one.has_error() for one in replies)
        assert np.array_equal(left.weights[-1], left.weights[0])


def leaves(places, stage):
    """Clients that stop to answer from a stage on."""
    gone = set()

    def answers(node, message):
        asked = message.content.config_records[MASKED][STAGE]
        if node - 1000 in places and asked == stage:
            gone.add(node)
        return node not in gone

    return answers


def test_a_client_that_leaves_before_its_update_is_not_in_the_mean(samples):
    answers = leaves({2}, "collect_masked_vectors")
    secure = {"secagg+": {"max_weight": 14.0, "reconstruction_threshold": 0.6}}

    found = trained(samples, secure=secure, answers=answers).weights[-1]

    others = (0, 1, 3, 4)
    assert np.abs(found - mean_of(samples, others)).max() <= bound_of(others, 14.0)


@pytest.mark.parametrize(
    "at",
    [
        {"setup": {2}},
        {"share_keys": {2}},
        {"setup": {1}, "share_keys": {3}},
        {"setup": {4}, "collect_masked_vectors": {0}},
        {"share_keys": {1}, "collect_masked_vectors": {3}},
    ],
    ids=str,
)
def test_a_client_that_leaves_while_keys_are_exchanged_is_not_in_the_mean(samples, at):
    each = [leaves(places, stage) for stage, places in at.items()]
    secure = {"secagg+": {"max_weight": 14.0, "reconstruction_threshold": 0.6}}

    found = trained(
        samples,
        secure=secure,
        answers=lambda node, message: all(one(node, message) for one in each),
    ).weights[-1]

    others = {*range(len(LENGTHS))}.difference(*at.values())
    assert np.abs(found - mean_of(samples, others)).max() <= bound_of(others, 14.0)


def test_a_client_that_leaves_after_its_update_is_in_the_mean(samples):
    secure = {"secagg+": {"max_weight": 14.0, "reconstruction_threshold": 0.6}}

    found = trained(samples, secure=secure, answers=leaves({2}, "unmask")).weights[-1]

    everyone = range(len(LENGTHS))
    assert np.abs(found - mean_of(samples, everyone)).max() <= bound_of(everyone, 14.0)


@pytest.mark.parametrize("stage", ["setup", "share_keys", "collect_masked_vectors"])
def test_a_round_that_cannot_be_unmasked_changes_nothing_and_the_next_one_does(samples, stage):
    secure = {"secagg+": {"max_weight": 14.0, "reconstruction_threshold": 0.6}}
    answers, rounds = leaves({0, 1, 2}, stage), []  # too many

    def at_first(node, message):
        asked = message.content.config_records[MASKED][STAGE]
        rounds.append(asked == "setup")
        return sum(rounds) > len(LENGTHS) or answers(node, message)

    left = trained(samples, secure=secure, answers=at_first, rounds=2).weights

    assert np.array_equal(left[1], left[0])
    everyone = range(len(LENGTHS))
    assert np.abs(left[2] - mean_of(samples, everyone)).max() <= bound_of(everyone, 14.0)


@pytest.mark.parametrize(
    ("settings", "train", "reason"),
    [
        ({"max_weight": 10.0}, step, "the view has 14 rows, and 'secagg+' adds clients of at most"),
        (
            {"max_weight": 14.0, "clipping_range": 1},
            lambda view, weights, config: [np.full(3, 1.5 if len(view) == 14 else 0.5)],
            "a weight is 1.5, and 'secagg+' cuts weights to ±1 here",
        ),
    ],
)
def test_a_client_whose_weights_would_be_cut_leaves_with_an_error(samples, settings, train, reason):
    secure = {"secagg+": {"reconstruction_threshold": 0.6, **settings}}

    left = trained(samples, secure=secure, train=train)

    errors = [one.error.reason for one in map(read, left.grid.arrived) if one.has_error()]
    assert len(errors) == 1
    assert reason in errors[0]


NOISE = {"noise_multiplier": 1.5, "clipping_norm": 0.4, "num_sampled_clients": 5}


def clipped(update):
    return update * min(1.0, NOISE["clipping_norm"] / np.linalg.norm(update))


@pytest.mark.parametrize("added", [{}, {"secagg+": {}}])
def test_noise_of_the_stated_multiplier_is_in_the_mean_of_cut_updates(samples, added):
    """Noise has the deviation multiplier × norm ÷ clients, and each client counts the same."""
    count, start = 40_000, np.linspace(-1, 1, 40_000)

    def waves(rows):
        return rows * np.cos(rows * np.arange(count)) / 100

    def train(view, weights, config):
        return [weights[0] + waves(len(view))]

    updates = [waves(rows) for rows in LENGTHS]
    expected = start + np.mean([clipped(one) for one in updates], axis=0)
    secure = {"dp": NOISE, **added}

    found = trained(samples, secure=secure, train=train, start=start).weights[-1]
    without = {**added, "dp": {**NOISE, "noise_multiplier": 0.0}}
    exact = trained(samples, secure=without, train=train, start=start).weights[-1]

    assert np.abs(exact - expected).max() <= (3 * RANGE / STEPS if added else 1e-12)
    noise = found - expected
    deviation = NOISE["noise_multiplier"] * NOISE["clipping_norm"] / len(LENGTHS)
    assert noise.std() == pytest.approx(deviation, rel=0.03)  # eight standard errors
    assert abs(noise.mean()) < 6 * deviation / np.sqrt(count)
    assert np.abs(noise).max() > 3 * deviation


def test_a_client_adds_noise_itself_before_anything_leaves_it(samples):
    count = 40_000
    local = {"clipping_norm": 0.4, "sensitivity": 0.4, "epsilon": 2.0, "delta": 1e-5}

    def train(view, weights, config):
        return [np.eye(1, count, len(view))[0] / 10]

    left = trained(samples, secure={"local-dp": local}, train=train, start=np.zeros(count))

    deviation = 0.4 * np.sqrt(2 * np.log(1.25 / 1e-5)) / 2.0
    sent = [read(one).content.array_records for one in left.grid.arrived]
    arrays = [next(iter(one.values())).to_numpy_ndarrays()[0] for one in sent]
    assert len(arrays) == len(LENGTHS)
    assert [one.std() for one in arrays] == pytest.approx([deviation] * 5, rel=0.03)


def test_a_dataset_is_open_for_one_request(samples):
    opened = []

    def view(context):
        opened.append(tl.open(samples.url))
        return opened[-1]

    def train(view, weights, config):
        view.append({"x": np.zeros(3, np.float32), "total": 0.0})  # it is open, and for writing
        view.discard()
        if len(opened) == 3:
            raise OSError("no rows today")
        return weights

    grid = InProcessGrid(tl.federated.client_app(view, train), 5)
    strategy = FedAvg(
        initial_parameters=ndarrays_to_parameters([np.zeros(3)]),
        min_available_clients=5,
        fraction_fit=0.8,
        fraction_evaluate=0.0,
    )
    run(tl.federated.server_app(strategy, rounds=1), grid)

    assert len(opened) == len({*grid.asked}) == 4
    for one in opened:
        with pytest.raises(tl.errors.InvalidStateError, match="closed"):
            one.append({"x": np.zeros(3, np.float32), "total": 0.0})


DP = {"noise_multiplier": 1.0, "clipping_norm": 1.0, "num_sampled_clients": 5}


@pytest.mark.parametrize(
    ("secure", "message"),
    [
        ("secagg", "there is no 'secagg'; did you mean 'secagg\\+'\\?\ngive 'dp', 'local-dp', "),
        (True, "secure=True: give 'dp', 'local-dp', 'secagg\\+', or a mapping of these names"),
        ({"secagg+": 3}, "secure\\['secagg\\+'\\]=3: give a mapping of settings: 'clipping_range'"),
        ({"secagg+": {"shares": 3}}, "has no setting 'shares'; did you mean 'num_shares'\\?"),
        ({"secagg+": {"num_shares": 2}}, "Flower refuses it: `num_shares` as an integer must be"),
        ("dp", "secure\\['dp'\\] lacks 'clipping_norm', 'noise_multiplier', 'num_sampled_clients'"),
        ({"dp": {**DP, "clipping_norm": -1.0}}, "Flower refuses it: The clipping threshold should"),
    ],
)
def test_a_wrong_secure_says_what_it_may_be(secure, message):
    with pytest.raises(InvalidInputError, match=message):
        tl.federated.server_app(FedAvg(), rounds=1, secure=secure)


def test_what_is_wrong_for_a_client_or_a_strategy_is_an_error():
    with pytest.raises(InvalidInputError, match="lacks 'clipping_norm', 'delta', 'epsilon', 'sens"):
        tl.federated.client_app(None, step, secure="local-dp")
    with pytest.raises(InvalidInputError, match="give a strategy of flwr"):
        tl.federated.server_app("FedAvg", rounds=1)
    with pytest.raises(InvalidInputError, match="rounds"):
        tl.federated.server_app(FedAvg(), rounds=0)


def test_without_flower_its_extra_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "flwr", None)

    with pytest.raises(MissingExtraError, match="needs the extra 'flwr'"):
        tl.federated.client_app(None, step)
