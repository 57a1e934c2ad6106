"""Workloads whose access is irregular, as thin modules on the SDK.

`tl.graphs`, `tl.embeddings`, `tl.trajectories` and `tl.infer`: each keeps its data in tensors of a
dataset, and none changes the format.
"""
