"""The client of ``tl.federated``: it opens its rows for each request, trains, and closes them.

The weights are checked here, because the server sees no update of one client with SecAgg+: shapes,
types, finite numbers, and the range that SecAgg+ would cut.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from tensorlake.dataset import Dataset, View
from tensorlake.errors import InvalidInputError, shown
from tensorlake.workloads.federated.protections import (
    STATED,
    FlowerObject,
    Secure,
    Weights,
    flower_of,
    listed,
    made,
    protections_of,
    seed_noise,
)

__all__ = ["client_app"]

Train = Callable[[Dataset | View, Weights, Mapping[str, Any]], Sequence[Any]]

LEAST_MOVED = 1e-150
"""A length whose square is above 0 in float64."""


def client_app(
    view: Callable[[FlowerObject], Dataset | View], train: Train, *, secure: Secure = None
) -> FlowerObject:
    """Make a ``flwr.clientapp.ClientApp`` that trains on a view, opened for each request.

    The client counts for as many rows as its view has; with "dp" all clients count the same, as
    the noise is that of a mean in which each has an equal part. With "secagg+" and "dp" the
    client answers no server that leaves the protection out. With "local-dp" the system seeds
    NumPy's global state before the noise.

    Args:
        view: Opens the rows of this client; given Flower's ``Context``. A `Dataset` that it
            returns is closed after the training.
        train: Given the rows, the weights of the round (a list of arrays) and its settings, returns
            a list of the new weights, of the same shapes. Integers are sent as float64: their
            mean is not an integer.
        secure: Protection of the updates; as in `server_app`, whose settings count.

    Raises:
        InvalidInputError: ``secure`` is not known, or lacks a setting. In a round: the weights are
            not of the shapes that were given; "secagg+" would cut them; a protection is on and one
            is not finite; or the server has other protections.
        MissingExtraError: Flower is not installed.

    Example:
        >>> import tensorlake as tl
        >>> app = tl.federated.client_app(  # doctest: +SKIP
        ...     lambda context: tl.open(context.node_config["url"]), train, secure="secagg+"
        ... )
    """
    flower = flower_of("tl.federated.client_app()")
    protections = protections_of(secure)
    mods = flower("client.mod")
    chosen: list[FlowerObject] = [_agreement(protections)]  # the first is the outermost
    if "secagg+" in protections:
        chosen.append(mods.secaggplus_mod)
    if "dp" in protections:
        chosen.append(mods.fixedclipping_mod)
    if "local-dp" in protections:
        chosen.append(made("local-dp", mods.LocalDpMod, protections))
    numpy_client: type[Any] = flower("client").NumPyClient

    class Client(numpy_client):
        """One request."""

        def __init__(self, context: FlowerObject) -> None:
            self.flower_context = context

        def fit(
            self, parameters: Weights, config: Mapping[str, Any]
        ) -> tuple[Weights, int, dict[str, Any]]:
            """Open the rows, train, close them."""
            given = [np.array(one) for one in parameters]  # train may write to those
            settings = {name: value for name, value in config.items() if name != STATED}
            rows = view(self.flower_context)
            try:
                weights = _learned(train(rows, parameters, settings), given)
                count = 1 if "dp" in protections else len(rows)
            finally:
                if isinstance(rows, Dataset):
                    rows.close()
            if protections:
                weights = _protectable(weights, given, protections)
            if "secagg+" in protections:
                _check_range(weights, count, self.flower_context)
            if "local-dp" in protections:
                seed_noise()
            return weights, count, {STATED: ",".join(protections)} if protections else {}

    def client(context: FlowerObject) -> FlowerObject:
        return Client(context).to_client()

    return flower("clientapp").ClientApp(client, mods=chosen)


def _agreement(protections: Mapping[str, Any]) -> FlowerObject:
    """Make a modifier that refuses a server of other protections: Flower's errors name a key."""
    masks = import_module("flwr.common.secure_aggregation.secaggplus_constants").RECORD_KEY_CONFIGS

    def agreed(message: FlowerObject, context: FlowerObject, proceed: FlowerObject) -> FlowerObject:
        if message.metadata.message_type != "train":
            return proceed(message, context)
        records = message.content.config_records
        settings = records.get("fitins.config")
        theirs = {"secagg+"} if masks in records else set[str]()
        wanted = {"secagg+"} & protections.keys()
        if settings is not None:
            wanted |= {"dp"} & protections.keys()
            theirs |= {"dp"} & protections.keys() if "clipping_norm" in settings else set()
            theirs |= {one for one in str(settings.get(STATED, "")).split(",") if one}
        if theirs - protections.keys() or wanted - theirs:
            raise InvalidInputError(
                f"the server has {listed(theirs) or 'no protection'}, and this client"
                f" {listed(protections) or 'none'}: give secure= the same names in both",
                actual=theirs,
                expected=[*protections],
            )
        return proceed(message, context)

    return agreed


def _learned(learned: Any, given: Weights) -> Weights:
    """Return what was trained as arrays of real numbers, in the shapes that were given."""
    if not isinstance(learned, list | tuple):
        raise InvalidInputError(
            f"train returned {type(learned).__name__}: return a list of arrays, one for each that"
            " it was given",
            actual=learned,
        )
    weights = [np.asarray(one) for one in learned]
    shapes, expected = [one.shape for one in weights], [one.shape for one in given]
    if shapes != expected:
        raise InvalidInputError(
            f"train returned arrays of shapes {shapes}, and was given {expected}"
            "\nreturn each weight in its shape and place",
            actual=shapes,
            expected=expected,
        )
    for one in weights:
        if one.dtype.kind not in "fiub":
            raise InvalidInputError(
                f"train returned an array of {one.dtype}: return real numbers, such as float32",
                actual=one.dtype,
            )
    return [one if one.dtype.kind == "f" else one.astype(np.float64) for one in weights]


def _protectable(weights: Weights, given: Weights, protections: Mapping[str, Any]) -> Weights:
    """Return weights as Flower's protections count right.

    They leave arrays of no dimension as they are, round in the type of an array, and divide by
    the length of the update.

    Raises:
        InvalidInputError: A weight is not finite.
    """
    for place, one in enumerate(weights):
        if not np.isfinite(one).all():
            raise InvalidInputError(
                f"array {place} of the weights has {shown(one[~np.isfinite(one)][0].item())}, and"
                f" {listed(protections)} protects finite numbers: the training has diverged",
                actual=one,
            )
    is_wide = "secagg+" in protections
    sent = [
        np.atleast_1d(one if one.dtype in ("f4", "f8") and not is_wide else one.astype(np.float64))
        for one in weights
    ]
    lengths = [np.linalg.norm((one - old).ravel()) for one, old in zip(sent, given, strict=True)]
    place = next((place for place, one in enumerate(sent) if one.size), None)
    if place is not None and math.sqrt(sum(one**2 for one in lengths)) == 0:  # as Flower has it
        moved = sent[place].astype(np.float64)
        first = moved.flat[0]
        moved.flat[0] = first + max(np.spacing(abs(first)), LEAST_MOVED)
        sent[place] = moved
    return sent


def _check_range(weights: Weights, count: int, context: FlowerObject) -> None:
    """Refuse weights that SecAgg+ would cut: the mean would be wrong without a word.

    A client sends its weights times the share of ``max_weight`` that its rows are, in integers
    of the range ±``clipping_range``; both arrive from the server, in the first stage of a round.
    """
    constants = import_module("flwr.common.secure_aggregation.secaggplus_constants")
    state = context.state.config_records[constants.RECORD_KEY_STATE]
    most, limit = state["max_weight"], state["clipping_range"]
    if count > most:
        raise InvalidInputError(
            f"the view has {count:,} rows, and 'secagg+' adds clients of at most {most:g}"
            f"\nraise it in the server: secure={{'secagg+': {{'max_weight': {float(count)}}}}}",
            actual=count,
            expected=most,
        )
    largest = max((float(np.abs(one).max(initial=0.0)) for one in weights), default=0.0)
    if not largest * count / most <= limit:
        raise InvalidInputError(
            f"a weight is {largest:g}, and 'secagg+' cuts weights to ±{limit * most / count:g} here"
            "\nraise it in the server: secure={'secagg+': {'clipping_range': …}}",
            actual=largest,
            expected=limit,
        )
