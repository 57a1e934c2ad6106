"""``make_loader``: from a selection and a reader to the loader of a framework.

The single entry point of this layer: ``ds.loader()``, ``ds.torch()``, ``ds.jax()`` and
``ds.tensorflow()`` use it. The frameworks are imported only here, when requested.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from tensorlake.errors import missing_extra
from tensorlake.loader.config.arguments import Framework, LoaderArguments, parse_arguments
from tensorlake.loader.engine.loader import Loader
from tensorlake.loader.frameworks.numpy import NumpyConverter
from tensorlake.loader.sources.arrangement import arranged

if TYPE_CHECKING:
    from tensorlake.loader.sources.rows import OrderedRows

__all__ = ["make_loader"]


def make_loader(
    rows: OrderedRows,
    framework: Framework,
    remake: Callable[..., Loader] | None = None,
    /,
    **arguments: Any,
) -> Loader:
    """Make a loader of some rows.

    The first three have no keywords, so that a user's argument of such a name is refused as any
    other unknown one.

    Args:
        rows: The rows, and the choice of their order.
        framework: The framework of the batches' arrays.
        remake: Makes the same loader in another process, when it is unpickled there; takes
            arguments that replace those given here.
        arguments: The user's arguments, by name; see ``LoaderArguments``.

    Raises:
        InvalidInputError: An argument is unknown or impossible.
        RaggedBatchError: Samples of a column differ in shape and no collation is given.
        UnsupportedFeatureError: An argument is for a later version.
        MissingExtraError: The framework is not installed.
    """
    parsed = parse_arguments(framework, arguments)
    rows = arranged(rows, parsed)
    match framework:
        case "numpy":
            converter = NumpyConverter()
            return Loader(rows, parsed, converter, remake=remake)
        case "torch":
            return _torch_loader(rows, parsed, remake)
        case "jax":
            return _jax_loader(rows, parsed, remake)
        case "tensorflow":
            return _tensorflow_loader(rows, parsed, remake)


def _torch_loader(
    rows: OrderedRows, parsed: LoaderArguments, remake: Callable[..., Loader] | None
) -> Loader:
    if find_spec("torch") is None:
        raise missing_extra("ds.torch()", "torch")
    from tensorlake.loader.frameworks.torch import TorchConverter, TorchLoader, device_of

    nested = {name for name, how in (parsed.collate or {}).items() if how == "nested"}
    converter = TorchConverter(
        device=None if parsed.device is None else device_of(parsed.device),
        nested=frozenset(nested),
    )
    return TorchLoader(rows, parsed, converter, remake=remake)


def _jax_loader(
    rows: OrderedRows, parsed: LoaderArguments, remake: Callable[..., Loader] | None
) -> Loader:
    if find_spec("jax") is None:
        raise missing_extra("ds.jax()", "jax")
    from tensorlake.loader.frameworks.jax import JaxConverter, placed_by

    placed, equal_parts = None, 1
    if parsed.sharding is not None:
        placed, equal_parts = placed_by(parsed.sharding)
    converter = JaxConverter(
        sharding=parsed.sharding,
        device=parsed.device,
        placed=placed,
        equal_parts=equal_parts,
    )
    return Loader(rows, parsed, converter, remake=remake)


def _tensorflow_loader(
    rows: OrderedRows, parsed: LoaderArguments, remake: Callable[..., Loader] | None
) -> Loader:
    if find_spec("tensorflow") is None:
        raise missing_extra("ds.tensorflow()", "tensorflow")
    from tensorlake.loader.frameworks.tensorflow import TensorFlowConverter, TensorFlowLoader

    return TensorFlowLoader(rows, parsed, TensorFlowConverter(), remake=remake)
