"""Transactions: staged changes, conflicts, and the protocol that publishes them as a commit."""
