"""`manage.py complete`: a completion in the terminal."""

import asyncio
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from completions.api import acomplete, astream
from completions.engines import registry
from completions.exceptions import ApiError


class Command(BaseCommand):
    """Completes one prompt with the served model."""

    help = "Complete a prompt and print the text."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take the prompt and the fields that are worth trying by hand."""
        parser.add_argument("prompt")
        parser.add_argument("--max-tokens", type=int, default=64)
        parser.add_argument("--temperature", type=float, default=0.0)
        parser.add_argument("--seed", type=int)
        parser.add_argument("--stop", action="append")
        parser.add_argument("--stream", action="store_true", help="print the text as it comes")

    def handle(self, *, prompt: str, stream: bool, **options: Any) -> None:
        """Print the completion."""
        names = ("max_tokens", "temperature", "seed", "stop")
        fields = {name: options[name] for name in names}
        try:
            asyncio.run(self._print(prompt, stream, fields))
        except ApiError as error:
            raise CommandError(error.message) from error
        finally:
            registry.close()

    async def _print(self, prompt: str, stream: bool, fields: dict[str, Any]) -> None:
        if stream:
            async for chunk in astream(prompt, **fields):
                self._write(chunk["choices"][0]["text"])
            self._write("\n")
        else:
            completion = await acomplete(prompt, **fields)
            self._write(completion["choices"][0]["text"] + "\n")

    def _write(self, text: str) -> None:
        self.stdout.write(text, ending="")
        self.stdout.flush()
