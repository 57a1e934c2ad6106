"""Let MosaicML's ``streaming`` be imported where torchvision is not.

It names two classes and a function of torchvision that no task here uses; torchvision itself asks
for a torch of its own version. Imported by scripts that a peer's Python runs, so it imports
nothing of ours.
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

NAMES: dict[str, tuple[str, ...]] = {
    "torchvision": (),
    "torchvision.datasets": ("VisionDataset", "CIFAR10"),
    "torchvision.transforms": (),
    "torchvision.transforms.functional": ("to_tensor",),
}


def stand_in_for_torchvision() -> None:
    """Put empty modules where ``streaming`` looks for torchvision, unless it is there."""
    for name, members in NAMES.items():
        if name not in sys.modules:
            module = ModuleType(name)
            module.__spec__ = ModuleSpec(name, None)  # others ask whether it is there
            for member in members:
                setattr(module, member, type(member, (), {}))
            sys.modules[name] = module
