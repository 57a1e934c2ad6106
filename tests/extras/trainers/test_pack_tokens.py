"""From texts to packed tokens with a byte-pair tokenizer trained on the dataset."""

from itertools import pairwise

import numpy as np
import pytest

import tensorlake as tl

pytest.importorskip("tokenizers")
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

TEXTS = ["to be or not to be", "that is the question", "whether 'tis nobler", "in the mind"] * 5


def test_packed_tokens_decode_to_the_texts(tmp_path):
    for number, text in enumerate(TEXTS):
        (tmp_path / f"{number:02}.txt").write_text(text)
    ds = tl.ingest.texts(tmp_path, "memory://extras-pack-tokens", labels=False)
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tok.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tok.train_from_iterator(
        ds["text"][:],
        trainers.BpeTrainer(vocab_size=300, special_tokens=["<eos>"], initial_alphabet=alphabet),
    )
    eos = tok.token_to_id("<eos>")

    def encoded(batch):
        found = tok.encode_batch_fast(batch["text"])
        return {"tokens": [np.asarray(one.ids, np.uint16) for one in found]}

    schema = {"tokens": tl.Array("uint16", (None,))}
    ds.map(encoded, columns=["text"], batch_size=7, schema=schema)
    ds.commit("bpe")
    whole = ds.pack("tokens", 64, eos=eos, split=False)

    (batch,) = whole.torch(batch_size=99, shuffle=True, collate={"tokens": "concat"})

    borders = batch["cu_seqlens"].tolist()
    documents = [batch["tokens"][a : b - 1].tolist() for a, b in pairwise(borders)]
    assert sorted(map(tok.decode, documents)) == sorted(TEXTS)
