"""Links: samples that stay in the files where they are."""
