"""The access plan: the order of an epoch as a pure function, and the state that resumes it."""
