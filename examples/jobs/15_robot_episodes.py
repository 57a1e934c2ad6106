"""Robot episodes: a row is a step, a window is a stretch of one episode, a batch is windows.

States and actions come as arrays (windows, steps, …), camera frames as images of one size, and no
window crosses from one episode into the next.
"""

import numpy as np
import torch

import tensorlake as tl

# 1. Steps of four episodes: a camera's frame, the state of the arm and the action that was taken.
rng = np.random.default_rng(0)
ds = tl.create(
    "memory://job15/reach",
    {
        "episode": "int64",
        "t": "int64",
        "state": tl.Array("float32", (6,)),
        "action": tl.Array("float32", (2,)),
        "frame": tl.Image("png"),
    },
)
for episode, length in enumerate((40, 12, 30, 25)):
    path = np.cumsum(rng.normal(0, 1, (length, 2)), axis=0)
    ds.extend(
        {
            "episode": [episode] * length,
            "t": range(length),
            "state": np.concatenate([path, rng.normal(0, 1, (length, 4))], axis=1),
            "action": np.diff(path, axis=0, append=path[-1:]),
            "frame": rng.integers(0, 255, (length, 48, 64, 3)).astype(np.uint8),
        }
    )
ds.commit("four episodes")

# 2. Windows of 16 steps, one beginning at every step; the last of an episode end with it.
windows = ds.windows(
    columns=["state", "action", "frame", "episode"], by="episode", size=16, step=1, tail="drop"
)
train = windows.torch(
    batch_size=8, shuffle=True, seed=1, decode={"frame": tl.decode.Resize(32, 32)}
)

# 3. A policy that copies actions.
policy = torch.nn.Linear(6 + 3, 2)
optimizer = torch.optim.Adam(policy.parameters(), 0.01)
count, loss = 0, torch.tensor(0.0)
for batch in train:
    frames = batch["frame"]
    assert frames.shape[1:] == (16, 32, 32, 3)
    assert bool((batch["episode"] == batch["episode"][:, :1]).all())
    seen = torch.cat([batch["state"], frames.float().mean((2, 3)) / 255], dim=-1)
    loss = torch.nn.functional.mse_loss(policy(seen), batch["action"])
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    count += len(frames)
assert count == sum(max(length - 15, 0) for length in (40, 12, 30, 25))
print(f"{count} windows of 16 steps; loss {loss.item():.2f}")
