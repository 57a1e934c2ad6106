"""Train by a Hugging Face Trainer in the processes of torchrun, stop, and go on from a step."""

import json
import sys
from pathlib import Path

import accelerate
import torch
import transformers

import tensorlake as tl
from tests.extras.trainers.conftest import loaders_of
from tests.extras.trainers.test_hugging_face import Trainer, Watching, arguments, the_batch

if __name__ == "__main__":
    url, folder = sys.argv[1:]
    seen = []
    for checkpoint in (None, f"{folder}/checkpoint-7"):
        train, evaluated = loaders_of(url)
        model = Watching()
        given = arguments(folder, save_strategy="steps", save_steps=7)
        trainer = Trainer(model, given, train_dataset=train, eval_dataset=evaluated)
        trainer.train(resume_from_checkpoint=checkpoint)
        seen.append(model.seen)
    train, _ = loaders_of(url)
    prepared = accelerate.Accelerator(cpu=True).prepare(train)
    seen.append([batch["_row"].tolist() for batch in prepared])
    given = arguments(folder, per_device_train_batch_size=1, eval_strategy="no")
    own = transformers.Trainer(Watching(), given, train_dataset=train, data_collator=the_batch)
    try:
        own.train()  # by its own dataloader, which would divide what is divided
    except tl.InvalidInputError as error:
        seen.append(str(error))
    rank = torch.distributed.get_rank()
    Path(folder, f"rank-{rank}.json").write_text(json.dumps(seen))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
