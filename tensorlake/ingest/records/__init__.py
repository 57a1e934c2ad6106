"""Records of other libraries: LitData, MDS, TFRecord."""
