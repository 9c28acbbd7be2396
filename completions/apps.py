"""The app."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class CompletionsConfig(AppConfig):
    """Registers the system checks; the engine is made when it is first asked for."""

    name = "completions"
    verbose_name = _("Completions")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Import what registers itself."""
        from completions import checks  # noqa: F401, PLC0415
