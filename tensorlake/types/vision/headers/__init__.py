"""Headers of encoded images: format, size and orientation, without decoding."""
