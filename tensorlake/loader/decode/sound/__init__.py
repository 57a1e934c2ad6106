"""Decode steps of audio: chunks of it, other rates, mel spectrograms."""
