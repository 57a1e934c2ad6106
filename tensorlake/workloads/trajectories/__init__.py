"""``tl.trajectories``: steps of environments as rows, recorded, replayed and imported.

    episode, t                 its number, and the number of the step in it, int64
    observation, action        by the spaces of the environment; one tensor for each key of a Dict
    reward                     of the step, float64
    terminated, truncated      whether the episode ended with the step, bool
    seed                       of the reset that the episode began with; NULL where it is not known
    last_observation           the one after the last step of an episode; NULL at all others

A row has the observation before its action. Steps of an environment are next to each other, in
blocks, and windows by episode feed sequence models: ``ds.windows(by="episode", size=16)``.

The interface of environments is that of Gymnasium 1: Towers et al., https://arxiv.org/abs/2407.17032
"""

from tensorlake.workloads.trajectories.minari import from_minari
from tensorlake.workloads.trajectories.recorder import record
from tensorlake.workloads.trajectories.replay import replay
from tensorlake.workloads.trajectories.rlds import from_rlds
from tensorlake.workloads.trajectories.time_grid import align

__all__ = ["align", "from_minari", "from_rlds", "record", "replay"]
