"""`manage.py prune_request_logs`: delete what the retention settings no longer keep."""

from typing import Any

from django.core.management.base import BaseCommand

from completions.log_retention import prune_batch


class Command(BaseCommand):
    """Deletes in batches, so that the writer of the log is never held up for long."""

    help = "Delete rows of the request log beyond LOG_MAX_AGE_DAYS and LOG_MAX_ROWS."

    def handle(self, **_: Any) -> None:
        """Delete batch after batch and show how many."""
        total = 0
        while deleted := prune_batch():
            total += deleted
            self.stdout.write(f"\r{total} rows are deleted.", ending="")
            self.stdout.flush()
        self.stdout.write(f"\r{total} rows are deleted.")
