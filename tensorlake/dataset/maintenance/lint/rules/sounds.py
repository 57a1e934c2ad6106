"""Audio that is silent or cannot be decoded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tensorlake.dataset.maintenance.lint.rule import Linted, LintRule, Suspect
from tensorlake.dataset.maintenance.lint.samples import facts_of
from tensorlake.types import Audio

__all__ = ["SILENCE"]

SILENT = 1e-3
"""Peak of silence, of full scale 1: −60 dB, below the noise of a microphone."""


def _silence(view: Linted) -> Iterator[Suspect]:
    for name, kind in view.schema.items():
        if not isinstance(kind, Audio):
            continue
        damaged: list[int] = []
        silent: list[int] = []
        for at, peak in facts_of(view, name, _peak):
            if peak is None:
                damaged.append(at)
            elif peak < SILENT:
                silent.append(at)
        remedy = "to train without them: on_error='skip'; or give the rows their files again"
        yield Suspect(name, "cannot be decoded", "", remedy, "error", damaged)
        remedy = "listen to them, and delete those of silence"
        yield Suspect(name, "is silent, below -60 dB", "", remedy, "warning", silent)


def _peak(waveform: Any) -> float:
    return max((float(np.abs(block).max(initial=0)) for block in waveform.blocks()), default=0.0)


SILENCE = LintRule("silence", "audio that is silent, or cannot be decoded", _silence)
