"""Queries: TQL over the rows of a dataset, and changes by TQL."""
