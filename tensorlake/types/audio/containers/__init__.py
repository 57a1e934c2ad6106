"""Containers of audio: where their packets are, found without decoding."""
