"""Remote caches for tests: a shared directory, Redis, and servers that do not work."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import unittest
from pathlib import Path

from opkeep import _native

HAS_REDIS = shutil.which("redis-server") is not None
NO_REDIS = "redis-server is not installed"


class Redis:
    """A Redis server that ends with the test."""

    def __init__(self, test: unittest.TestCase) -> None:
        directory = tempfile.TemporaryDirectory()
        test.addCleanup(directory.cleanup)
        self._directory = directory.name
        end = time.monotonic() + 60
        while not self._starts():
            assert time.monotonic() < end, "redis-server does not start"
        test.addCleanup(self.end)

    def _starts(self) -> bool:
        """Start the server on a free port, and return whether it runs: another program may have taken the port meanwhile."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"redis://127.0.0.1:{self.port}"
        settings = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        self.process = subprocess.Popen(
            ["redis-server", *settings, "--dir", self._directory],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        end = time.monotonic() + 20
        while self.process.poll() is None and time.monotonic() < end:
            if self.answers() and self.process.poll() is None:
                return True
            time.sleep(0.01)
        self.end()
        return False

    def answers(self) -> bool:
        """Whether the server answers."""
        try:
            return self.command("PING") == b"+PONG\r\n"
        except OSError:
            return False

    def command(self, *words: str) -> bytes:
        """Send a command, and return the first part of the answer."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
            connection.sendall((" ".join(words) + "\r\n").encode())
            return connection.recv(65536)

    def keys(self) -> int:
        """Return the number of keys."""
        return int(self.command("DBSIZE").strip()[1:])

    def end(self) -> None:
        """Kill the server."""
        self.process.kill()
        self.process.wait()


class Silent:
    """A server that takes connections and never answers."""

    def __init__(self, test: unittest.TestCase) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._connections: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()
        self.url = f"redis://127.0.0.1:{self._socket.getsockname()[1]}"
        test.addCleanup(self.end)

    @property
    def connections(self) -> int:
        """The number of connections so far."""
        return len(self._connections)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                self._connections.append(self._socket.accept()[0])

    def end(self) -> None:
        """Close all connections."""
        # A thread in `accept` goes on until the socket is shut down.
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()
        for connection in self._connections:
            connection.close()


class Held:
    """A Redis server whose answers wait until they are released."""

    def __init__(self, test: unittest.TestCase, redis: Redis) -> None:
        self._redis = redis
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._is_released = threading.Event()
        self.url = f"redis://127.0.0.1:{self._socket.getsockname()[1]}"
        self.connections = 0
        """The number of connections so far."""
        threading.Thread(target=self._accept, daemon=True).start()
        test.addCleanup(self._socket.close)
        test.addCleanup(self.release)

    def release(self) -> None:
        """Send the answers."""
        self._is_released.set()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client = self._socket.accept()[0]
                server = socket.create_connection(("127.0.0.1", self._redis.port))
                threading.Thread(target=self._forward, args=(client, server), daemon=True).start()
                threading.Thread(target=self._forward, args=(server, client), daemon=True).start()
                self.connections += 1

    def _forward(self, source: socket.socket, sink: socket.socket) -> None:
        self._is_released.wait()
        with contextlib.suppress(OSError), source, sink:
            while data := source.recv(65536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_RDWR)


def closed_url() -> str:
    """Return the URL of a server that is not there."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"redis://127.0.0.1:{free.getsockname()[1]}"


def shared_entries(shared: Path) -> list[Path]:
    """Return the entries in a shared directory: `v1/NAMESPACE/TARGET/e/...`."""
    files = (path for path in shared.rglob("*") if path.is_file())
    return sorted(path for path in files if path.relative_to(shared).parts[3:4] == ("e",))


def generate_key(file: Path) -> str:
    """Write a secret key to a file, and return its public key."""
    text, code, error = _native.run(["key", "generate", f"--out={file}", file.name], lambda level, text: None)
    assert (code, error) == (0, None)
    return str(json.loads(text)["public_key"])
