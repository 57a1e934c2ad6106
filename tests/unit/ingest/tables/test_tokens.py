"""JSON lines to tokens: tokenizers of every kind, restarts, and what is no token."""

import json
import threading

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.errors import InvalidInputError, SchemaError

TEXTS = [f"text {'x' * (at % 7)} {at}" for at in range(60)]


def encode(texts):
    assert all(isinstance(one, str) for one in texts)
    return [list(text.encode()) for text in texts]


class Encoding:
    def __init__(self, ids):
        self.ids = ids


class LikeTokenizers:
    """What the library tokenizers has."""

    def encode_batch(self, texts):
        return [Encoding(ids) for ids in encode(texts)]

    def get_vocab_size(self):
        return 256


class LikeTransformers:
    """What a tokenizer of transformers has."""

    def __len__(self):
        return 50_257

    def __call__(self, texts):
        return {"input_ids": encode(texts), "attention_mask": [[1]] * len(texts)}


class LikeTiktoken:
    """What an encoding of tiktoken has."""

    n_vocab = 100_277

    def encode_batch(self, texts):
        return encode(texts)


def lines(path, texts=TEXTS, **members):
    rows = [{"text": one, **{k: v[at] for k, v in members.items()}} for at, one in enumerate(texts)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("tokenizer", "dtype"),
    [
        (encode, "uint32"),
        (LikeTokenizers(), "uint16"),
        (LikeTransformers(), "uint16"),
        (LikeTiktoken(), "uint32"),
    ],
    ids=["callable", "tokenizers", "transformers", "tiktoken"],
)
def test_any_tokenizer_makes_tokens_of_text(tmp_path, tokenizer, dtype):
    file = lines(tmp_path / "a.jsonl", url=[f"u{at}" for at in range(60)])

    ds = tl.ingest.jsonl(file, f"memory://tokens-{type(tokenizer).__name__}", tokenizer=tokenizer)

    assert dict(ds.schema) == {"url": tl.Text(), "tokens": tl.Array(dtype, (None,))}
    assert [bytes(one.tolist()).decode() for one in ds["tokens"]] == TEXTS
    assert ds[59]["url"] == "u59"


def test_text_is_kept_where_the_schema_names_it(tmp_path):
    file = lines(tmp_path / "a.jsonl", body=TEXTS, n=list(range(60)))
    schema = {"body": tl.Text(), "ids": tl.Array("uint8", (None,))}

    ds = tl.ingest.jsonl(
        file,
        "memory://tokens-kept",
        schema=schema,
        tokenizer=encode,
        text="body",
        tokens="ids",
    )

    assert dict(ds.schema) == schema
    assert ds[7]["body"] == TEXTS[7]
    assert bytes(ds[7]["ids"].tolist()).decode() == TEXTS[7]


def test_text_without_tokens_is_a_row_without_tokens(tmp_path):
    ds = tl.ingest.jsonl(
        lines(tmp_path / "a.jsonl", ["", "a"]), "memory://tokens-empty", tokenizer=encode
    )

    assert ds["tokens"][:].lengths.tolist() == [0, 1]


def test_run_that_fails_goes_on_where_it_stopped(tmp_path):
    """Each file is a commit; of two only the first lines are asked again, to know the tokenizer."""
    for at in range(4):
        lines(tmp_path / f"{at}.jsonl", [f"{at} {text}" for text in TEXTS])
    asked: list[str] = []
    lock = threading.Lock()

    def failing(texts):
        with lock:
            asked.extend(texts)
        if texts[0].startswith("2"):
            raise RuntimeError("out of memory")
        return encode(texts)

    call = {"commit_every": "1kB", "workers": 1}
    with pytest.raises(RuntimeError, match="out of memory"):
        tl.ingest.jsonl(tmp_path, tmp_path / "t.tl", tokenizer=failing, **call)
    assert len(tl.open(tmp_path / "t.tl")) == 120
    asked.clear()

    def counted(texts):
        asked.extend(texts)
        return encode(texts)

    ds = tl.ingest.jsonl(tmp_path, tmp_path / "t.tl", tokenizer=counted, **call)

    assert ds.ingest_report.already_there == 120
    assert [text[0] for text in asked if text[0] < "2"] == ["0"] * 16
    assert [text for text in asked if text[0] >= "2"] == [
        f"{at} {text}" for at in (2, 3) for text in TEXTS
    ]
    whole = [f"{at} {text}" for at in range(4) for text in TEXTS]
    assert [bytes(one.tolist()).decode() for one in ds["tokens"]] == whole


class WithVocabulary:
    """A tokenizer of tokenizers or transformers, whose tokens for these texts are those of all."""

    def __init__(self, vocabulary):
        self.vocabulary = vocabulary

    def get_vocab(self):
        return self.vocabulary

    def __call__(self, texts):
        return encode(texts)


class OfTiktoken(LikeTiktoken):
    name = "of this test"

    def __init__(self, tokens):
        self.tokens = tokens

    def token_byte_values(self):
        return self.tokens


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (encode, lambda texts: [[byte + 1 for byte in one] for one in encode(texts)]),
        (WithVocabulary({"a": 0, "b": 1}), WithVocabulary({"a": 1, "b": 0})),
        (OfTiktoken([b"a", b"b"]), OfTiktoken([b"a", b"c"])),
        (encode, WithVocabulary({"a": 0})),
    ],
    ids=["numbers", "vocabulary", "tokens", "known"],
)
def test_rows_of_another_tokenizer_are_not_taken_for_done(tmp_path, first, second):
    file, place = lines(tmp_path / "a.jsonl"), tmp_path / "t.tl"
    schema = {"tokens": tl.Array("uint32", (None,))}
    tl.ingest.jsonl(file, place, tokenizer=first, schema=schema)
    call = {"tokenizer": second, "schema": schema}

    with pytest.raises(InvalidInputError, match=r"\(from 'a.jsonl'\), not made by token"):
        tl.ingest.jsonl(file, place, **call)
    ds = tl.ingest.jsonl(file, place, mode="append", **call)

    assert len(ds) == 120
    assert tl.ingest.jsonl(file, place, mode="append", **call).ingest_report.already_there == 60


def test_same_tokenizer_made_anew_is_the_same(tmp_path):
    file, place = lines(tmp_path / "a.jsonl"), tmp_path / "t.tl"
    tl.ingest.jsonl(file, place, tokenizer=WithVocabulary({"a": 0, "b": 1}))

    again = tl.ingest.jsonl(file, place, tokenizer=WithVocabulary({"b": 1, "a": 0}))

    assert (len(again), again.ingest_report.already_there) == (60, 60)


def test_another_column_of_the_same_lines_is_not_taken_for_done(tmp_path):
    file = lines(tmp_path / "a.jsonl", title=TEXTS)
    call = {"tokenizer": encode, "schema": {"tokens": tl.Array("uint32", (None,))}}
    tl.ingest.jsonl(file, tmp_path / "t.tl", text="text", **call)

    with pytest.raises(InvalidInputError, match="not made by tokenizer-"):
        tl.ingest.jsonl(file, tmp_path / "t.tl", text="title", **call)


@pytest.mark.parametrize(
    ("tokenizer", "told"),
    [
        (lambda texts: encode(texts)[:-1], "was given 16 texts and gave 15 answers"),
        (lambda texts: [7 for _ in texts], r"was given 16 texts and gave array\(7\) for one"),
        (lambda texts: [["a"] for _ in texts], "'tokens' expects"),
        (lambda texts: [[1 << 40] for _ in texts], "'tokens' expects"),
        (7, "takes a callable, or what has encode_batch; got int"),
    ],
)
def test_what_is_no_token_is_refused(tmp_path, tokenizer, told):
    file = lines(tmp_path / "a.jsonl")

    with pytest.raises(InvalidInputError, match=told):
        tl.ingest.jsonl(file, tmp_path / "t.tl", tokenizer=tokenizer)


def test_what_is_no_text_is_refused_with_its_row(tmp_path):
    file = lines(tmp_path / "a.jsonl", ["a", None])

    with pytest.raises(InvalidInputError, match=r"line 2 of a.jsonl, member 'text': null, not"):
        tl.ingest.jsonl(file, tmp_path / "t.tl", tokenizer=encode)
    with pytest.raises(InvalidInputError, match="there is no 'body' to tokenize; members: text"):
        tl.ingest.jsonl(file, tmp_path / "t.tl", tokenizer=encode, text="body")


def test_tokens_of_another_type_than_integers_are_refused(tmp_path):
    file = lines(tmp_path / "a.jsonl")

    for wrong in (tl.Array("float32", (None,)), tl.Array("uint16", (4,)), tl.Text()):
        with pytest.raises(SchemaError, match="'tokens' is tokens, and cannot be"):
            tl.ingest.jsonl(file, "memory://t", tokenizer=encode, schema={"tokens": wrong})


def test_map_makes_the_same_tokens_of_text_that_was_ingested(tmp_path):
    """The way of job 4: text first, tokens later, by columns."""
    tokenizer = LikeTransformers()
    text = tl.ingest.jsonl(
        lines(tmp_path / "a.jsonl"), "memory://tokens-map", schema={"text": tl.Text()}
    )

    text.map(
        lambda batch: {"tokens": tokenizer(batch["text"])["input_ids"]},
        columns=["text"],
        batch_size=7,
        schema={"tokens": tl.Array("uint16", (None,))},
    )
    text.commit("tokens")

    direct = tl.ingest.jsonl(tmp_path / "a.jsonl", "memory://tokens-direct", tokenizer=tokenizer)
    assert [one.tolist() for one in text["tokens"]] == [one.tolist() for one in direct["tokens"]]
    assert np.result_type(text["tokens"].dtype) == direct["tokens"].dtype
