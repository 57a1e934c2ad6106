"""Settings that every test shares.

Hypothesis runs without deadlines (a shared machine may pause at any moment) and derives its
examples from the test itself, so that a failure on one machine is a failure on all.
"""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "tensorlake",
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("tensorlake")
