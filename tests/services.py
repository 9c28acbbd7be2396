"""Real servers beside the site, started by the tests on free ports."""

import os
import shutil
import socket
import subprocess
import tempfile
from contextlib import closing
from pathlib import Path

import pytest


def free_port():
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        return free.getsockname()[1]


class Postgres:
    """A PostgreSQL cluster of its own; it refuses to run as root, so then the package's user does."""

    def __init__(self, folder, binaries):
        self.port = free_port()
        self._data = folder / "data"
        self._socket = folder
        self._binaries = binaries
        self._as_user = []
        if os.geteuid() == 0:
            shutil.chown(folder, "postgres")
            self._as_user = ["runuser", "-u", "postgres", "--"]
        self._call("initdb", "--auth=trust", "--username=tests", "--no-sync", f"-D{self._data}")

    def start(self):
        options = f"-p {self.port} -k {self._socket} -c listen_addresses=127.0.0.1"
        self._call("pg_ctl", "start", "-w", f"-D{self._data}", "-o", options)

    def stop(self):
        self._call("pg_ctl", "stop", "-w", "-m", "immediate", f"-D{self._data}")

    def _call(self, program, *arguments):
        command = [*self._as_user, str(self._binaries / program), *arguments]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=60, cwd="/")


@pytest.fixture(scope="session")
def postgres():
    """Its port, in the variable that the tests' settings read."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not found:
        pytest.skip("PostgreSQL is not installed (apt-get install postgresql)")
    with tempfile.TemporaryDirectory() as folder:
        server = Postgres(Path(folder), found[-1])
        server.start()
        yield server
        server.stop()
