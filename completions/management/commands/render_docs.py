"""`manage.py render_docs`: write the docs' tables from the code."""

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from completions.documentation import outdated


class Command(BaseCommand):
    """Brings the pages in docs/ up to date."""

    help = "Write the tables of fields and settings into the pages of docs/."
    requires_system_checks: list[str] = []  # noqa: RUF012 - as Django declares it

    def handle(self, **_: Any) -> None:
        """Rewrite what is out of date."""
        for path, text in outdated(Path(settings.BASE_DIR) / "docs").items():
            path.write_text(text)
            self.stdout.write(f"wrote {path.name}")
