"""The server of ``tl.federated``: Flower's workflow of rounds, with a strategy of Flower's.

The strategy is wrapped: it is given no answer of a client without the protections of the server,
and its weights keep the shapes and types that the run began with.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from tensorlake.errors import InvalidInputError, shown
from tensorlake.quantities import checked_integer
from tensorlake.workloads.federated.protections import (
    SHARES,
    STATED,
    THRESHOLD,
    FlowerObject,
    Secure,
    Weights,
    check_clients,
    check_mean,
    flower_of,
    listed,
    made,
    protections_of,
    seed_noise,
)

__all__ = ["server_app"]


def server_app(strategy: FlowerObject, *, rounds: int, secure: Secure = None) -> FlowerObject:
    """Make a ``flwr.serverapp.ServerApp`` that trains for some rounds.

    With ``secure`` a client that is not made with the same protections fails; with "dp", and with
    "secagg+" where it is in the sum, such a client ends the round, which changes nothing.

    Args:
        strategy: One of ``flwr.server.strategy`` with weights to begin with, such as
            ``FedAvg(initial_parameters=…)``. Its ``evaluate_fn`` is given the weights of each
            round. With "secagg+" its ``aggregate_fit`` is that of FedAvg, FaultTolerantFedAvg,
            FedAvgM, FedAdagrad, FedAdam or FedYogi; with "dp", of one of the first two.
        rounds: Number of rounds.
        secure: Protection of the updates: "secagg+", or a mapping of names to settings:
            ``{"secagg+": {"max_weight": 5000.0}, "dp": {"noise_multiplier": 1.0, "clipping_norm":
            0.5, "num_sampled_clients": 40}}``. The settings are the arguments of Flower's classes.

    Raises:
        InvalidInputError: ``secure`` is not known, or lacks a setting; Flower refuses one; or the
            strategy does not go with it. In a run: there are no weights to begin with; or, with
            "secagg+", a round has one client, or more than ``modulus_range`` has place for.
        MissingExtraError: Flower is not installed.

    Example:
        >>> import tensorlake as tl
        >>> app = tl.federated.server_app(FedAvg(), rounds=3, secure="secagg+")  # doctest: +SKIP
    """
    flower = flower_of("tl.federated.server_app()")
    checked_integer(rounds, name="rounds", least=1)
    protections = protections_of(secure)
    strategies = flower("server.strategy")
    if not isinstance(strategy, strategies.Strategy):
        raise InvalidInputError(
            f"strategy={shown(strategy)}: give a strategy of flwr.server.strategy, such as"
            " FedAvg(initial_parameters=…); SecAgg+ has no others",
            actual=strategy,
        )
    check_mean(strategy, strategies, protections)
    if "dp" in protections:
        wrapper = partial(strategies.DifferentialPrivacyClientSideFixedClipping, strategy)
        strategy = made("dp", wrapper, protections)
    workflows, fit = flower("server.workflow"), None
    if "secagg+" in protections:
        protections["secagg+"] = {
            "num_shares": SHARES,
            "reconstruction_threshold": THRESHOLD,
            **({"max_weight": 1.0} if "dp" in protections else {}),  # all clients count the same
            **protections["secagg+"],
        }
        fit = made("secagg+", _without_the_gone(workflows.SecAggPlusWorkflow), protections)
    strategy = _checked(strategy, flower, protections)
    server = flower("server")
    app = flower("serverapp").ServerApp()

    @app.main()
    def main(grid: FlowerObject, context: FlowerObject) -> None:
        config = server.ServerConfig(num_rounds=rounds)
        legacy = server.LegacyContext(context=context, config=config, strategy=strategy)
        workflows.DefaultWorkflow(fit_workflow=fit)(grid, legacy)

    return app


def _without_the_gone(workflow_type: type[Any]) -> type[Any]:
    """Make SecAgg+ continue without clients that leave while keys are exchanged.

    They have masked nothing, and no other client masks with them. Flower 1.41 still asks for shares
    of their keys, which no client has, and ends the round.
    """

    def forget(state: Any) -> bool:
        here = state.sampled_node_ids = set(state.active_node_ids)
        state.nid_to_neighbours = {one: state.nid_to_neighbours[one] & here for one in here}
        return True

    class WithoutTheGone(workflow_type):
        def setup_stage(self, grid: Any, context: Any, state: Any) -> bool:
            return super().setup_stage(grid, context, state) and forget(state)

        def share_keys_stage(self, grid: Any, context: Any, state: Any) -> bool:
            return super().share_keys_stage(grid, context, state) and forget(state)

    return WithoutTheGone


def _checked(
    strategy: FlowerObject, flower: Callable[[str], Any], protections: Mapping[str, Any]
) -> FlowerObject:
    """Make a strategy that takes only protected answers to another one, and back what it makes."""
    common, log = flower("common"), flower("common.logger").log
    arrays_of = common.parameters_to_ndarrays
    strategy_type: type[Any] = flower("server.strategy").Strategy
    masked = protections.get("secagg+")

    class Checked(strategy_type):
        """Given weights keep their shapes and float types: protections send others."""

        given: Weights

        def initialize_parameters(self, client_manager: FlowerObject) -> FlowerObject:
            found = strategy.initialize_parameters(client_manager)
            if found is None:
                raise InvalidInputError(
                    f"strategy={type(strategy).__name__} has no weights to begin with"
                    "\ngive it initial_parameters=ndarrays_to_parameters([…])",
                    actual=strategy,
                )
            return found

        def configure_fit(
            self, server_round: int, parameters: FlowerObject, client_manager: FlowerObject
        ) -> FlowerObject:
            asked = strategy.configure_fit(server_round, parameters, client_manager)
            if not protections:
                return asked
            if masked is not None and asked:
                check_clients(len(asked), masked)
            self.given = arrays_of(parameters)
            stated = {STATED: ",".join(protections)}
            return [
                (proxy, common.FitIns(one.parameters, {**one.config, **stated}))
                for proxy, one in asked
            ]

        def aggregate_fit(
            self, server_round: int, results: FlowerObject, failures: FlowerObject
        ) -> FlowerObject:
            kept, failed = [], [*failures]
            for proxy, answer in results:
                stated = str(answer.metrics.pop(STATED, "")).split(",")
                if protections.keys() <= {*stated}:
                    kept.append((proxy, answer))
                    continue
                reason = f"a client without {listed(protections.keys() - {*stated})} was refused"
                failed.append(InvalidInputError(reason))
                log(logging.ERROR, "%s: make it with the same secure=", reason)
            if masked is not None and len(kept) < len(results):
                return None, {}  # what was refused is in the sum
            if kept and not any(answer.num_examples for _, answer in kept):
                log(logging.ERROR, "no client has a row: the round changes nothing")
                return None, {}
            if masked is not None and kept:
                mean = arrays_of(kept[0][1].parameters)
                if not all(np.isfinite(one).all() for one in mean):
                    log(logging.ERROR, "all clients have too few rows for max_weight: lower it")
                    return None, {}
            if "dp" in protections:
                seed_noise()
            made, metrics = strategy.aggregate_fit(server_round, kept, failed)
            if made is None or not protections:
                return made, metrics
            back = [
                one.reshape(given.shape).astype(given.dtype if given.dtype.kind == "f" else None)
                for one, given in zip(arrays_of(made), self.given, strict=True)
            ]
            return common.ndarrays_to_parameters(back), metrics

        def configure_evaluate(self, *given: Any, **named: Any) -> FlowerObject:
            return strategy.configure_evaluate(*given, **named)

        def aggregate_evaluate(self, *given: Any, **named: Any) -> FlowerObject:
            return strategy.aggregate_evaluate(*given, **named)

        def evaluate(self, *given: Any, **named: Any) -> FlowerObject:
            return strategy.evaluate(*given, **named)

    return Checked()
