"""Other libraries beside ours: environments, processes, and contenders of each subject."""
