"""Importers of media in files: video."""
