"""Samples as records of other formats: MDS, TFRecord, WebDataset."""
