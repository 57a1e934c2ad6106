"""Files: reading, naming and syncing the files of a local store."""
