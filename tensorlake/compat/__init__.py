"""Other libraries' names for what is here, so that programs written for them run on a dataset.

``tensorlake.compat.lerobot`` has LeRobot's dataset, and ``tensorlake.compat.deeplake`` the names of
Deep Lake. Each is imported by itself.
"""

__all__: list[str] = []
