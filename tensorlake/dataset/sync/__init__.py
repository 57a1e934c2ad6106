"""Rows brought to their source: the ledger of what each was made from, and comparison by it."""
