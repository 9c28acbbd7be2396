"""How fast the admin is on a million requests (SQLite).

    python -m tests.benchmarks.admin_list [--rows 1000000] [--folder DIR]

Prints the median of several requests of each page, in milliseconds, through Django's test client.
The database is in DIR, where it is kept and used again, or else in a temporary folder.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

LIST = "/admin/completions/requestlog/"
REPEATS = 5


def pages(newest, oldest):
    """The measured pages by name."""
    return {
        "list": LIST,
        "page 100": f"{LIST}?p=100",
        "search by id": f"{LIST}?q={oldest.request_id}",
        "search for a common text": f"{LIST}?q=Norway",
        "search for a text that is nowhere": f"{LIST}?q=zebra",
        "refused": f"{LIST}?outcome=refused",
        "one model": f"{LIST}?model=qwen3-0.6b",
        "ended by length": f"{LIST}?finish_reason=length",
        "a month": f"{LIST}?created__year={newest.created:%Y}&created__month={newest.created.month}",
        "a day": f"{LIST}?created__year={newest.created:%Y}&created__month={newest.created.month}"
        f"&created__day={newest.created.day}",
        "slowest first": f"{LIST}?o=-12",
        "detail": f"{LIST}{newest.pk}/change/",
        "dashboard of 30 days": f"{LIST}dashboard/?days=30",
    }


def measure(rows):
    """Fill a database, then ask for every page."""
    import django

    django.setup()
    from django.contrib.auth.models import User
    from django.core.management import call_command
    from django.test import Client

    from completions.models import RequestLog
    from tests.log_rows import fill

    call_command("migrate", verbosity=0)
    if not RequestLog.objects.exists():
        fill(rows, days=90)
    client = Client(SERVER_NAME="localhost")
    user, _ = User.objects.get_or_create(username="ada", is_staff=True, is_superuser=True)
    client.force_login(user)
    newest, oldest = RequestLog.objects.first(), RequestLog.objects.last()
    say("| page | first | median, ms |\n| --- | --- | --- |")
    for name, path in pages(newest, oldest).items():
        first, *others = [timed(client, path) for _ in range(REPEATS + 1)]
        say(f"| {name} | {first:.0f} | {statistics.median(others):.0f} |")


def say(line):
    """Print at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def timed(client, path):
    """Milliseconds until the whole page is there."""
    started = time.perf_counter()
    response = client.get(path)
    assert response.status_code == 200, (path, response.status_code)
    return 1000 * (time.perf_counter() - started)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["DJANGO_SETTINGS_MODULE"] = "tests.completions.live_settings"
        os.environ["LIVE_DIR"] = str(arguments.folder or folder)
        measure(arguments.rows)
