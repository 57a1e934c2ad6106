"""Train with Lightning in two processes, which it joins after the loaders are made."""

import json
import sys
from pathlib import Path

from tests.extras.trainers.conftest import EPOCHS, loaders_of
from tests.extras.trainers.test_lightning import Watching, trainer

if __name__ == "__main__":
    url, folder = sys.argv[1:]
    train, validation = loaders_of(url)
    module = Watching()
    two = trainer(max_epochs=EPOCHS, devices=2, strategy="ddp")
    two.fit(module, train, validation)
    Path(folder, f"rank-{two.global_rank}.json").write_text(
        json.dumps([module.trained, module.validated])
    )
