"""The example site on a prepared model, under the strictest policy that a host may have."""

from tests.real_model.live_settings import *  # noqa: F403

MIDDLEWARE = ["tests.browser.middleware.strict_policy", *MIDDLEWARE]  # noqa: F405
