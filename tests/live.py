"""The example site under real servers, in processes of their own."""

import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from contextlib import closing

import httpx

SERVERS = {
    "daphne": ["manage.py", "serve", "--port", "{port}"],
    "uvicorn": ["-m", "uvicorn", "{site}.asgi:application", "--port", "{port}"],
    "urlconf": ["-m", "uvicorn", "tests.completions.live_asgi:application", "--port", "{port}"],
    "gunicorn": ["-m", "gunicorn", "{site}.wsgi", "--bind", "127.0.0.1:{port}", "--threads", "8"],
}


class Live:
    """A server by its name in SERVERS, with a database of its own in a folder.

    The site is this checkout's, or that of another folder `cwd`.
    """

    def __init__(self, name, folder, settings, model, cwd=None, site="project", **environment):
        with closing(socket.create_server(("127.0.0.1", 0))) as free:
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.name = name
        self.model = model
        self.cwd = cwd
        self.site = site
        self.database = folder / "live.sqlite3"
        self.environment = {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": settings,
            "LIVE_DIR": str(folder),
            **environment,
        }
        self.process = None

    def start(self):
        self.run("manage.py", "migrate", "--verbosity", "0")
        arguments = [
            argument.format(port=self.port, site=self.site) for argument in SERVERS[self.name]
        ]
        self.process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=self.cwd,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.wait_until(self.is_ready)

    def run(self, *arguments):
        command = [sys.executable, *arguments]
        subprocess.run(command, cwd=self.cwd, env=self.environment, check=True, timeout=60)

    def is_ready(self):
        try:
            return httpx.get(f"{self.url}/v1/health/ready").status_code == 200
        except httpx.TransportError:
            return False

    def wait_until(self, condition, seconds=60):
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline
            assert self.process.poll() is None, self.process.stdout.read()
            time.sleep(0.05)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        output, _ = self.process.communicate(timeout=30)
        return self.process.returncode, output

    def running(self):
        for line in httpx.get(f"{self.url}/metrics").text.splitlines():
            if line.startswith("num_requests_running{"):
                return float(line.split()[-1])
        return None

    def ask(self, **fields):
        body = {"model": self.model, "prompt": "hi", **fields}
        return httpx.post(f"{self.url}/v1/completions", json=body, timeout=60)

    def rows(self):
        with closing(sqlite3.connect(self.database)) as connection:
            return connection.execute(
                "SELECT status_code, prompt FROM completions_requestlog ORDER BY id"
            ).fetchall()
