"""Every public call shows its parameters, their types and defaults."""

import copy
import inspect
import pickle
import pydoc
import re
import typing

import pytest

import tensorlake as tl
from tensorlake.dataset.handles.batches import jax, loader, torch
from tensorlake.dataset.handles.open import open_dataset
from tensorlake.dataset.transform.loader_options import JaxOptions
from tensorlake.ingest.engine.options import DEFAULTS, IngestOptions
from tensorlake.ingest.engine.run import run_ingest
from tensorlake.loader import Loader
from tensorlake.loader.config.arguments import LoaderArguments

HANDLES = (tl.Dataset, tl.View, tl.Tensor, tl.Row, tl.Group, tl.Mix, tl.Predicate, tl.Ragged)
RETURNED = (tl.Commit, tl.Diff, Loader)
NAMES_OF_THE_USER = {
    "query",
    "where",
    "select",
    "order_by",
    "unnest",
    "execute",
    "create_index",
    "export",
}
"""Calls whose further arguments are named by the query (parameters, columns), index or format."""
IMPORTERS = [getattr(tl.ingest, name) for name in tl.ingest.__all__ if name.islower()]
LOADER_CALLS = {"torch": torch, "jax": jax, "loader": loader}


def public_calls() -> dict[str, object]:
    """Find every public call, by the name that users type."""
    found: dict[str, object] = {}
    for name in [*tl.__all__, "open", "list"]:
        one = getattr(tl, name)
        is_made = not inspect.isclass(one) or issubclass(one, tl.types.SampleType | tl.File)
        if callable(one) and is_made:
            found[f"tl.{name}"] = one
    for kind in (*HANDLES, *RETURNED):
        for name in dir(kind):
            static = inspect.getattr_static(kind, name)
            if name.startswith("_") or not (inspect.isroutine(static)):
                continue
            found[f"{kind.__name__}.{name}"] = getattr(kind, name)
    for module in (tl.ingest, tl.decode, tl.collate, tl.testing):
        short = module.__name__.rpartition(".")[2]
        for name in module.__all__:
            one = getattr(module, name)
            is_protocol = getattr(one, "_is_protocol", False)
            is_typing = getattr(one, "__module__", "") == "typing" or typing.is_typeddict(one)
            is_error = inspect.isclass(one) and issubclass(one, BaseException)
            is_choice = name == "Fault"  # an enum: its members are chosen, none is made
            if callable(one) and not (is_protocol or is_typing or is_error or is_choice):
                found[f"{short}.{name}"] = one
    return found


CALLS = public_calls()


def test_all_the_public_calls_are_looked_at():
    assert {"tl.create", "tl.Image", "Dataset.torch", "View.torch", "Mix.torch"} <= CALLS.keys()
    assert {"ingest.csv", "decode.Resize", "collate.Pad", "Loader.state_dict"} <= CALLS.keys()
    assert len(CALLS) > 150


@pytest.mark.parametrize("name", CALLS)
def test_every_parameter_shows_its_name_and_type(name):
    signature = inspect.signature(CALLS[name])

    takes_names = name.rpartition(".")[2] in NAMES_OF_THE_USER
    for parameter in signature.parameters.values():
        if parameter.name in {"self", "cls"}:
            continue
        assert parameter.annotation is not parameter.empty, parameter
        is_open = parameter.kind in {parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL}
        assert takes_names or not is_open, f"{name}({parameter})"


@pytest.mark.parametrize("name", [one for one in CALLS if "." in one and one[0].isupper()])
def test_a_method_is_shown_as_one(name):
    kind, _, method = name.partition(".")
    call = CALLS[name]

    assert call.__name__ == method
    assert call.__qualname__.rpartition(".")[2] == method
    assert "." in call.__qualname__
    assert call.__doc__, kind
    if call.__module__ != "collections.abc":  # of every mapping: keys(), values(), items()
        assert call.__doc__.strip().splitlines()[0].endswith((".", ":", ";"))


def test_help_shows_parameters_defaults_and_the_first_line():
    ds = tl.create("memory://signatures-help", {"x": "int64"})

    shown = pydoc.plain(pydoc.render_doc(ds.torch))
    of_class = pydoc.plain(pydoc.render_doc(tl.Dataset))

    assert "method torch" in shown
    assert "batch_size: 'int | None' = None" in shown
    assert "prefetch: 'int | str' = '256MiB'" in shown
    assert "Stream batches of torch tensors" in shown
    assert "**" not in shown.partition("(")[2].partition("Stream batches")[0]
    # since Python 3.13 a long signature has a parameter a line
    assert re.search(r"  torch\([\s|]*self\b", of_class)
    assert re.search(r"  query\([\s|]*self\b", of_class)


@pytest.mark.parametrize("name", LOADER_CALLS)
def test_a_loader_call_shows_each_argument_of_the_loader_with_its_default(name):
    others = {"jax": set(), "torch": {"sharding"}, "loader": {"sharding", "device"}}[name]
    fields = LoaderArguments.__dataclass_fields__

    shown = dict(inspect.signature(LOADER_CALLS[name]).parameters)
    del shown["self"]

    assert shown.keys() == fields.keys() - others
    assert {key: one.default for key, one in shown.items()} == {
        key: fields[key].default for key in shown
    }
    assert {one.kind for one in shown.values()} == {inspect.Parameter.KEYWORD_ONLY}


def test_a_loader_of_a_state_shows_the_arguments_that_the_state_does_not_have():
    fields = LoaderArguments.__dataclass_fields__

    shown = dict(inspect.signature(tl.loader_from_state).parameters)

    assert [*shown][:2] == ["state", "storage_options"]
    order = {"seed", "shuffle", "weights", "stratify", "group", "limit", "repeat"}
    assert shown.keys() - {"state", "storage_options"} == fields.keys() - order
    assert all(shown[key].default == fields[key].default for key in fields if key in shown)


def test_the_options_that_type_checkers_read_have_the_types_of_the_arguments():
    fields = LoaderArguments.__dataclass_fields__
    read = JaxOptions.__annotations__

    written = {name: one.__forward_arg__ for name, one in read.items() if name != "timeout"}

    assert written == {name: fields[name].type for name in fields if name != "timeout"}
    assert read["timeout"].__forward_arg__ == "Duration"


def test_only_the_arguments_given_reach_the_loader():
    class Holder:
        def __loader__(self, framework: str, arguments: dict[str, object]) -> object:
            return framework, arguments

    assert torch(Holder(), batch_size=2) == ("torch", {"batch_size": 2})
    assert loader(Holder()) == ("numpy", {})


def test_a_word_of_another_library_is_refused_in_words():
    ds = tl.create("memory://signatures-words", {"x": "int64"})

    with pytest.raises(tl.errors.InvalidInputError, match="workers=, which counts"):
        ds.torch(num_workers=4)


@pytest.mark.parametrize("importer", IMPORTERS, ids=lambda one: one.__name__)
def test_an_importer_shows_every_option_with_its_default(importer):
    shown = inspect.signature(importer).parameters

    assert {key: shown[key].default for key in DEFAULTS} == DEFAULTS
    assert all(shown[key].kind is inspect.Parameter.KEYWORD_ONLY for key in DEFAULTS)
    assert DEFAULTS.keys() == IngestOptions.__annotations__.keys()


@pytest.mark.parametrize("importer", IMPORTERS, ids=lambda one: one.__name__)
def test_the_help_of_an_importer_says_that_it_commits(importer):
    assert "its rows are committed" in pydoc.plain(pydoc.render_doc(importer))


def test_the_options_of_importers_have_the_defaults_that_are_used():
    used = {
        **inspect.signature(open_dataset).parameters,
        **inspect.signature(run_ingest).parameters,
    }

    assert {key: used[key].default for key in DEFAULTS} == DEFAULTS


@pytest.mark.parametrize("kind", [tl.Dataset, tl.View, tl.Mix])
def test_methods_are_found_by_their_names_in_pickles(kind):
    assert pickle.loads(pickle.dumps(kind.torch)) is kind.torch


def test_a_sequence_is_copied_and_pickled():
    clip = tl.Sequence(tl.Image("jpeg"), nullable=True)

    assert copy.deepcopy(clip) == clip
    assert pickle.loads(pickle.dumps(clip)) == clip


def test_brackets_complete_tensors_and_groups():
    schema = {"x": "int64", "pose": tl.Struct({"x": "int8", "at": tl.Struct({"y": "int8"})})}
    ds = tl.create("memory://signatures-brackets", schema)
    ds.append({"x": 1, "pose": {"x": 2, "at": {"y": 3}}})
    every = ["x", "pose", "pose/x", "pose/at", "pose/at/y"]

    view = ds.select("x", twice="2 * x")

    assert ds._ipython_key_completions_() == every
    assert ds[0]._ipython_key_completions_() == every
    assert view._ipython_key_completions_() == ["x", "twice"]
    assert ds["pose"]._ipython_key_completions_() == ["x", "at", "at/y"]
    for name in every:
        assert ds[name] is not None
        assert name in ds
    ds.discard()
