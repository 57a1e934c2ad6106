"""``tl.federated``: apps of Flower whose clients train on views, and what protects the updates.

    client_app   open the view → train → close it, for each request: a client that was not chosen
                 has no handle, and makes no request
    server_app   Flower's workflow of rounds, with a strategy of Flower's

``secure`` names protections of Flower's own, for both apps; nothing here is cryptography:

    "secagg+"    SecAggPlusWorkflow, secaggplus_mod: the server learns the weighted mean alone
    "dp"         DifferentialPrivacyClientSideFixedClipping, fixedclipping_mod: clients cut their
                 updates to a norm, and the mean has noise
    "local-dp"   LocalDpMod: a client adds the noise itself
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import Any, Literal

import numpy as np

from tensorlake.dataset import Dataset, View
from tensorlake.errors import InvalidInputError, did_you_mean, missing_extra, shown
from tensorlake.quantities import checked_integer

__all__ = ["client_app", "server_app"]

Weights = list[np.ndarray[Any, Any]]
Train = Callable[[Dataset | View, Weights, Mapping[str, Any]], Sequence[Any]]
Protection = Literal["secagg+", "dp", "local-dp"]
Secure = Protection | Mapping[Protection, Mapping[str, Any]] | None
FlowerObject = Any  # of an optional library, like all of Flower's below

SHARES, THRESHOLD = 1.0, 0.7
"""Each client has a share of each other one's keys, and three of ten may drop out."""

SETTINGS: Mapping[str, frozenset[str]] = {
    "secagg+": frozenset(
        {
            "num_shares",
            "reconstruction_threshold",
            "max_weight",
            "clipping_range",
            "quantization_range",
            "modulus_range",
            "timeout",
        }
    ),
    "dp": frozenset({"noise_multiplier", "clipping_norm", "num_sampled_clients"}),
    "local-dp": frozenset({"clipping_norm", "sensitivity", "epsilon", "delta"}),
}
"""The arguments of Flower's classes. Those of "secagg+" have defaults."""


def client_app(
    view: Callable[[FlowerObject], Dataset | View], train: Train, *, secure: Secure = None
) -> FlowerObject:
    """Make a ``flwr.clientapp.ClientApp`` that trains on a view, opened for each request.

    The client counts for as many rows as its view has; with "dp" all clients count the same, as
    the noise is that of a mean in which each has an equal part. With "secagg+" and "dp" the
    client answers no server that leaves the protection out.

    Args:
        view: Opens the rows of this client; given Flower's ``Context``. A `Dataset` that it
            returns is closed after the training.
        train: Given the rows, the weights of the round (a list of arrays) and its settings, returns
            the new weights, of the same shapes.
        secure: Protection of the updates; as in `server_app`, whose settings count.

    Raises:
        InvalidInputError: ``secure`` is not known, or lacks a setting. In a round: "secagg+" would
            cut the weights.
        MissingExtraError: Flower is not installed.

    Example:
        >>> import tensorlake as tl
        >>> app = tl.federated.client_app(  # doctest: +SKIP
        ...     lambda context: tl.open(context.node_config["url"]), train, secure="secagg+"
        ... )
    """
    flower = _flower("tl.federated.client_app()")
    protections = _protections(secure)
    mods = flower("client.mod")
    chosen: list[FlowerObject] = []  # the first is the outermost
    if "secagg+" in protections:
        chosen.append(mods.secaggplus_mod)
    if "dp" in protections:
        chosen.append(mods.fixedclipping_mod)
    if "local-dp" in protections:
        chosen.append(_made("local-dp", mods.LocalDpMod, protections))
    numpy_client: type[Any] = flower("client").NumPyClient

    class Client(numpy_client):
        """One request."""

        def __init__(self, context: FlowerObject) -> None:
            self.flower_context = context

        def fit(
            self, parameters: Weights, config: Mapping[str, Any]
        ) -> tuple[Weights, int, dict[str, Any]]:
            """Open the rows, train, close them."""
            rows = view(self.flower_context)
            try:
                weights = [np.asarray(one) for one in train(rows, parameters, config)]
                count = 1 if "dp" in protections else len(rows)
            finally:
                if isinstance(rows, Dataset):
                    rows.close()
            if "secagg+" in protections:
                _check_range(weights, count, self.flower_context)
            return weights, count, {}

    def client(context: FlowerObject) -> FlowerObject:
        return Client(context).to_client()

    return flower("clientapp").ClientApp(client, mods=chosen)


def server_app(strategy: FlowerObject, *, rounds: int, secure: Secure = None) -> FlowerObject:
    """Make a ``flwr.serverapp.ServerApp`` that trains for some rounds.

    Args:
        strategy: One of ``flwr.server.strategy``, such as ``FedAvg(initial_parameters=…)``. Its
            ``evaluate_fn`` is given the weights of each round.
        rounds: Number of rounds.
        secure: Protection of the updates: "secagg+", or a mapping of names to settings:
            ``{"secagg+": {"max_weight": 5000.0}, "dp": {"noise_multiplier": 1.0, "clipping_norm":
            0.5, "num_sampled_clients": 40}}``. The settings are the arguments of Flower's classes.

    Raises:
        InvalidInputError: ``secure`` is not known, or lacks a setting; or Flower refuses one.
        MissingExtraError: Flower is not installed.

    Example:
        >>> import tensorlake as tl
        >>> app = tl.federated.server_app(FedAvg(), rounds=3, secure="secagg+")  # doctest: +SKIP
    """
    flower = _flower("tl.federated.server_app()")
    checked_integer(rounds, name="rounds", least=1)
    protections = _protections(secure)
    strategies = flower("server.strategy")
    if not isinstance(strategy, strategies.Strategy):
        raise InvalidInputError(
            f"strategy={shown(strategy)}: give a strategy of flwr.server.strategy, such as"
            " FedAvg(initial_parameters=…); SecAgg+ has no others",
            actual=strategy,
        )
    if "dp" in protections:
        wrapper = partial(strategies.DifferentialPrivacyClientSideFixedClipping, strategy)
        strategy = _made("dp", wrapper, protections)
    workflows, fit = flower("server.workflow"), None
    if "secagg+" in protections:
        protections["secagg+"] = {
            "num_shares": SHARES,
            "reconstruction_threshold": THRESHOLD,
            **({"max_weight": 1.0} if "dp" in protections else {}),  # all clients count the same
            **protections["secagg+"],
        }
        fit = _made("secagg+", workflows.SecAggPlusWorkflow, protections)
    server = flower("server")
    app = flower("serverapp").ServerApp()

    @app.main()
    def main(grid: FlowerObject, context: FlowerObject) -> None:
        config = server.ServerConfig(num_rounds=rounds)
        legacy = server.LegacyContext(context=context, config=config, strategy=strategy)
        workflows.DefaultWorkflow(fit_workflow=fit)(grid, legacy)

    return app


def _flower(call: str) -> Callable[[str], Any]:
    """Return what imports a module of Flower."""
    try:
        import_module("flwr")
    except ImportError as error:
        raise missing_extra(call, "flwr") from error
    return lambda name: import_module(f"flwr.{name}")


def _protections(secure: Secure) -> dict[str, Mapping[str, Any]]:
    """Return the settings of each protection, by its name.

    Raises:
        InvalidInputError: It is neither a name nor a mapping, or has unknown names.
    """
    if secure is None:
        return {}
    given: Any = {secure: {}} if isinstance(secure, str) else secure
    if not isinstance(given, Mapping):
        raise InvalidInputError(
            f"secure={shown(secure)}: give {_listed(SETTINGS)}, or a mapping of these names to"
            " settings",
            actual=secure,
        )
    for name, settings in given.items():
        if name not in SETTINGS:
            raise InvalidInputError(
                f"secure={shown(secure)}: there is no {shown(name)}{did_you_mean(name, SETTINGS)}"
                f"\ngive {_listed(SETTINGS)}",
                actual=name,
            )
        _check_settings(name, settings)
    return dict(given)


def _check_settings(name: str, settings: Any) -> None:
    """Check the names of settings."""
    known = SETTINGS[name]
    if not isinstance(settings, Mapping):
        raise InvalidInputError(
            f"secure[{name!r}]={shown(settings)}: give a mapping of settings: {_listed(known)}",
            actual=settings,
        )
    for one in settings:
        if one not in known:
            raise InvalidInputError(
                f"secure[{name!r}] has no setting {shown(one)}{did_you_mean(one, known)}"
                f"\ngive {_listed(known)}",
                actual=one,
            )


def _made(
    name: str, kind: Callable[..., Any], protections: Mapping[str, Mapping[str, Any]]
) -> FlowerObject:
    """Make one of Flower's objects with its settings.

    Raises:
        InvalidInputError: One is missing, or Flower refuses one.
    """
    settings = protections[name]
    missing = [] if name == "secagg+" else sorted(SETTINGS[name] - settings.keys())
    if missing:
        raise InvalidInputError(
            f"secure[{name!r}] lacks {_listed(missing)}"
            f"\ngive them: secure={{{name!r}: {{{missing[0]!r}: …}}}}",
            expected=missing,
        )
    try:
        return kind(**{one: _as_sent(one, value) for one, value in settings.items()})
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"secure[{name!r}]={shown(dict(settings))}: Flower refuses it: {error}",
            actual=dict(settings),
        ) from error


def _as_sent(name: str, value: Any) -> Any:
    """Return a setting in the type that Flower's clients insist on."""
    is_real = name in ("clipping_range", "max_weight") and type(value) is int
    return float(value) if is_real else value


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


def _listed(names: Any) -> str:
    return ", ".join(repr(one) for one in sorted(names))
