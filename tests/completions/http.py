"""Asking the consumer without a server."""

import asyncio
import json
from contextlib import asynccontextmanager

from channels.testing import ApplicationCommunicator

from completions.consumers import CompletionConsumer

JSON = {"content-type": "application/json", "host": "localhost"}
BODY = {"model": "fake", "prompt": "hi", "max_tokens": 3}


class Answer:
    def __init__(self, status, headers, body):
        self.status = status
        self.headers = {name.decode(): value.decode() for name, value in headers}
        self.body = body

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def events(self):
        """The payloads of a stream, without its [DONE]."""
        *lines, done, rest = self.body.decode().split("\n\n")
        assert (done, rest) == ("data: [DONE]", "")
        return [json.loads(line.removeprefix("data: ")) for line in lines if line[0] != ":"]


class Connection(ApplicationCommunicator):
    """One request; the test plays the server."""

    def __init__(self, method="POST", headers=JSON, path="/v1/completions"):
        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": method,
            "path": path,
            "query_string": b"",
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
            "client": ["10.0.0.7", 4242],
        }
        super().__init__(CompletionConsumer.as_asgi(), scope)

    async def send_body(self, body, *, more_body=False):
        await self.send_input({"type": "http.request", "body": body, "more_body": more_body})

    async def hang_up(self):
        await self.send_input({"type": "http.disconnect"})
        await self.wait()

    async def receive_answer(self):
        start = await self.receive_output()
        body, more = b"", True
        while more:
            piece = await self.receive_output()
            body, more = body + piece["body"], piece.get("more_body", False)
        return Answer(start["status"], start["headers"], body)


@asynccontextmanager
async def connection(**options):
    """A connection that is closed at the end, whatever happens."""
    opened = Connection(**options)
    try:
        yield opened
    finally:
        await opened.send_input({"type": "http.disconnect"})
        await opened.wait()


async def ask(body=None, *, raw=None, **options):
    """Send one request (BODY with changes, or raw bytes) and read the answer."""
    async with connection(**options) as opened:
        await opened.send_body(
            json.dumps({**BODY, **(body or {})}).encode() if raw is None else raw
        )
        return await opened.receive_answer()


async def until(condition):
    """Wait for something that another task does."""
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)
