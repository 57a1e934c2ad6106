"""Tensors of torch that NumPy does not take: by their values where they have some, else refused."""

import numpy as np
import pytest

import tensorlake as tl

torch = pytest.importorskip("torch")

SCHEMA = {
    "fixed": tl.Array("float32", (2,)),
    "ragged": tl.Array("float32", (None,)),
    "integers": tl.Array("int64", (2,)),
    "number": tl.Scalar("float32"),
    "truth": tl.Bool(),
    "label": tl.ClassLabel(["a", "b"]),
    "labels": tl.ClassLabel(["a", "b"], multi=True),
    "boxes": tl.BBox(),
    "vector": tl.Embedding(2),
    "image": tl.Image("png"),
    "outlines": tl.Polygon(),
    "mask": tl.BinaryMask(),
    "masks": tl.InstanceMask(),
    "classes": tl.SegmentMask(["a", "b"]),
    "points": tl.Keypoints(["a"], []),
    "text": tl.Text(),
    "json": tl.Json(),
    "bytes": tl.Bytes(),
    "tags": tl.Tags(),
    "time": tl.Timestamp(),
    "uuid": tl.Uuid(),
    "list": tl.Sequence(tl.Scalar("float32")),
    "struct": tl.Struct({"a": "float32"}),
    "narrow": tl.Array("bfloat16", (2,)),
}


def ones(*shape, **options):
    return torch.ones(*shape, **options)


FOREIGN = {
    "gradient": ones(2, 2, requires_grad=True),
    "bfloat16": ones(2, 2, dtype=torch.bfloat16),
    "both": ones(2, 2, dtype=torch.bfloat16, requires_grad=True),
    "float8": ones(2, 2).to(torch.float8_e4m3fn),
    "meta": ones(2, 2, device="meta"),
    "sparse": ones(2, 2).to_sparse(),
    "conjugated": ones(2, 2, dtype=torch.complex64).conj(),
    "negated": torch.imag(ones(2, 2, dtype=torch.complex64).conj()),
    "parameter": torch.nn.Parameter(ones(2, 2)),
    "list": [ones(2, requires_grad=True)] * 2,
    "list of bfloat16": [ones(2, dtype=torch.bfloat16)] * 2,
    "numbers": [ones((), requires_grad=True)] * 2,
    "nested": [[ones((), requires_grad=True)] * 2] * 2,
    "number": ones((), requires_grad=True),
    "list of meta": [ones(2, device="meta")] * 2,
}


@pytest.mark.parametrize("name", SCHEMA)
def test_a_tensor_of_torch_is_taken_or_refused_and_raises_nothing_of_torchs(name):
    refused = 0
    with tl.create(f"memory://foreign-{name}", {name: SCHEMA[name]}) as ds:
        for value in FOREIGN.values():
            for call in calls(ds, name, value):
                try:
                    call()
                except tl.TensorlakeError:
                    refused += 1
        ds.discard()
    assert refused  # torch's "meta" tensors at least


def calls(ds, name, value):
    return (
        lambda: ds.extend({name: value}),
        lambda: ds.extend([{name: value}]),
        lambda: ds.append({name: value}),
        lambda: len(ds) > 1 and ds[name].__setitem__(slice(0, 2), value),
        lambda: len(ds) and ds[name].__setitem__(0, value),
        lambda: ds.upsert({name: value}, on=name),
        lambda: tl.infer_schema({name: value}),
    )


@pytest.mark.parametrize(
    "foreign", ["gradient", "bfloat16", "both", "float8", "parameter", "list", "list of bfloat16"]
)
@pytest.mark.parametrize("how", ["extend", "append", "assign"])
def test_values_of_a_tensor_with_gradients_or_few_bits_are_taken(foreign, how):
    value = FOREIGN[foreign]
    with tl.create(f"memory://taken-{foreign}-{how}", {"x": SCHEMA["fixed"]}) as ds:
        if how == "extend":
            ds.extend({"x": value})
        elif how == "append":
            for one in value:
                ds.append({"x": one})
        else:
            ds.extend({"x": np.zeros((2, 2))})
            ds["x"][:] = value

        assert ds["x"][:].tolist() == [[1, 1], [1, 1]]
        ds.discard()


def test_a_lazily_negated_tensor_is_taken_by_its_values():
    with tl.create("memory://taken-negated", {"x": SCHEMA["fixed"]}) as ds:
        ds.extend({"x": FOREIGN["negated"]})

        assert not ds["x"][:].any()
        ds.discard()


@pytest.mark.parametrize("foreign", ["meta", "sparse"])
def test_a_tensor_without_elements_to_read_is_refused_with_torchs_reason(foreign):
    value = FOREIGN[foreign]
    with tl.create(f"memory://refused-{foreign}", {"x": SCHEMA["fixed"]}) as ds:
        with pytest.raises(tl.InvalidInputError, match=r"torch.Tensor cannot become an array"):
            ds.extend({"x": value})
        with pytest.raises(tl.InvalidInputError, match="'x'"):
            ds.append({"x": value[0]})

        assert len(ds) == 0
