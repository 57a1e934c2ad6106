"""``python -m tensorlake.compat.lerobot``: LeRobot's training script."""

from tensorlake.compat.lerobot.training import train

if __name__ == "__main__":
    train()
