"""Counted trees: their nodes, growth, lookup and comparison."""
