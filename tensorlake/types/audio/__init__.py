"""Sound: files of audio, read in parts."""
