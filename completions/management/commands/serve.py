"""`manage.py serve`: the whole service in one process."""

import asyncio
import signal
import time
from argparse import ArgumentParser
from typing import TYPE_CHECKING, Any

from daphne.endpoints import build_endpoint_description_strings
from daphne.server import Server, twisted_loop
from django.apps import apps
from django.conf import settings as django_settings
from django.contrib.staticfiles.handlers import ASGIStaticFilesHandler
from django.core.asgi import get_asgi_application
from django.core.management.base import BaseCommand, CommandError
from django.utils.module_loading import import_string

from completions import daphne_request
from completions.asgi import completions_application
from completions.engines import NO_MODEL, registry
from completions.lifespan import shut_down
from engine.errors import EngineError

if TYPE_CHECKING:
    from engine.async_engine import AsyncEngine

PROGRESS_SECONDS = 1.0
LAST_BYTES_SECONDS = 5.0


class Command(BaseCommand):
    """Loads the model, then listens until it is told to stop."""

    help = "Load the model and serve it with daphne; SIGTERM or Ctrl-C ends it in order."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take the address."""
        parser.add_argument("--host", default="127.0.0.1")
        parser.add_argument("--port", type=int, default=8000)

    def handle(self, *, host: str, port: int, **_: Any) -> None:
        """Load, listen, end."""
        engine = registry.get()
        if engine is None:
            raise CommandError(NO_MODEL)
        try:
            self._wait(engine)
            self._listen(host, port)
        finally:
            registry.close()

    def _wait(self, engine: "AsyncEngine") -> None:
        """Show that the model loads, and how long it took."""
        start = time.monotonic()
        while True:
            try:
                engine.wait_until_ready(PROGRESS_SECONDS)
                break
            except EngineError as error:
                if engine.state != "loading":
                    raise CommandError(str(error)) from error
                self._show(f"Loading {registry.model}: {time.monotonic() - start:.0f} s")
        self._show(f"{registry.model} is ready after {time.monotonic() - start:.1f} s.")
        self.stdout.write("")

    def _show(self, progress: str) -> None:
        self.stdout.write(f"\r{progress}", ending="")
        self.stdout.flush()

    def _listen(self, host: str, port: int) -> None:
        address = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        daphne_request.install()
        server = Server(
            application=site_application(),
            endpoints=build_endpoint_description_strings(host=host, port=port),
            signal_handlers=False,
            ready_callable=lambda: self.stdout.write(f"Listening on {address}; Ctrl-C stops."),
        )
        ending = Ending(server)
        for number in (signal.SIGTERM, signal.SIGINT):
            twisted_loop.add_signal_handler(number, ending.begin)
        server.run()
        if not server.listening_addresses:
            raise CommandError(f"Can't listen on {address}: the address is in use or not ours.")


def site_application() -> object:
    """The site's own application or, where it names none, its URLconf with the consumer before it.

    With DEBUG it serves static files too, as `runserver` does.
    """
    if path := getattr(django_settings, "ASGI_APPLICATION", None):
        application = import_string(path)
    else:
        application = completions_application(get_asgi_application())
    if django_settings.DEBUG and apps.is_installed("django.contrib.staticfiles"):
        return ASGIStaticFilesHandler(application)
    return application


class Ending:
    """Ends a server in order: daphne itself would cut every running answer off."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Begin to end; asked a second time, end at once."""
        if self._task is None:
            self._task = twisted_loop.create_task(self._end())
        else:
            self._server.stop()

    async def _end(self) -> None:
        await shut_down()
        deadline = time.monotonic() + LAST_BYTES_SECONDS
        while self._is_answering() and time.monotonic() < deadline:  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.05)
        self._server.stop()

    def _is_answering(self) -> bool:
        applications = [
            details.get("application_instance") for details in self._server.connections.values()
        ]
        return any(application and not application.done() for application in applications)
