"""How many examples a property test draws: few in the default suite, twenty times as many in soak.

``@examples(12)`` is for tests whose examples are dear; others take what the profile says.
"""

from hypothesis import settings

SOAK = 20


def examples(count: int, **others: object) -> settings:
    """Draw so many examples, and twenty times as many under ``make soak``."""
    factor = SOAK if settings.get_current_profile_name() == "soak" else 1
    return settings(max_examples=count * factor, **others)
