"""Records of other libraries: TFRecord."""
