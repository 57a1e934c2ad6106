"""Samples as records of other formats: LitData, MDS, TFRecord, WebDataset."""
