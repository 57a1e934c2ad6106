"""Importers of media in files: audio, video, volumes."""
