"""The format's constants, canonical JSON, checksums and the descriptor."""
