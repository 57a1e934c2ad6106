"""Diagnosis: measure each stage of a loader alone, and find which one limits the rate.

    probes    ─► demands (seconds a row) and capacities ─► model ─► rate, stalls, bottleneck
                                                               └──► settings, tried once

Plumber (Kuchnik et al., MLSys 2022) names the bottleneck of an input pipeline by operational
analysis; Stash (Sharma et al., ICDCS 2023) splits the stall of a step by replacing stages.
"""

from tensorlake.loader.diagnosis.estimate import Estimate
from tensorlake.loader.diagnosis.model import Ceiling
from tensorlake.loader.diagnosis.report import Diagnosis

__all__ = ["Ceiling", "Diagnosis", "Estimate"]
