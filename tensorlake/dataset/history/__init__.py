"""History: commits, logs, differences, merges and restores as users see them."""
