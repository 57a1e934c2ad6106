"""Stages of the pipeline: fetch, assemble, transform."""
