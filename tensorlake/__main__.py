"""``python -m tensorlake`` is the ``tensorlake`` program."""

from tensorlake.cli import main

if __name__ == "__main__":
    main()
