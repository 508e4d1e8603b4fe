"""The digests of the compilers that Triton runs: where they are kept, and for whom."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
import unittest
from typing import Any

import opkeep
from triton_helper import TritonTest


class DigestTest(TritonTest):
    """Digests in the user's directory, and in memory."""

    def test_the_digests_of_compilers_are_shared_and_never_stale(self) -> None:
        compiler = self.root / "compiler"
        compiler.write_bytes(b"one")
        program = (
            "import os; from opkeep.triton import _toolchain as t; of = lambda *parts: t._toolchains.of(list(parts)); "
            f"print(of(('c', {str(compiler)!r}, '')) == of(('c', None, os.environ['CONTENT'])))"
        )
        private = self.root / f"opkeep-{os.geteuid()}"

        def has(content: str) -> bool:
            environment = {**os.environ, "TMPDIR": str(self.root), "CONTENT": content}
            output = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
            return output.stdout.strip() == "True"

        def set_age(seconds: int) -> None:
            modified = time.time_ns() - seconds * 1_000_000_000
            os.utime(compiler, ns=(modified, modified))

        # A file that has just changed is not recorded. This one stays so for as long as the test takes.
        set_age(-3600)
        self.assertTrue(has("one"))
        self.assertFalse((private / "digests").exists())
        set_age(3600)
        state = compiler.stat()
        fields = (state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns)

        def record(content: bytes, is_valid: bool = True) -> None:
            digest = hashlib.sha256(content).hexdigest()
            body = f"opkeep digests 1\n{digest} {' '.join(map(str, fields))} {compiler}\n"
            end = hashlib.sha256(body.encode() if is_valid else b"").hexdigest()
            (private / "digests").write_text(f"{body}{end}\n")

        # The record of another process is used. If it is damaged, or if others may have written it, it is not.
        record(b"planted")
        self.assertTrue(has("planted"))
        record(b"planted", is_valid=False)
        self.assertTrue(has("one"))
        record(b"planted")
        if os.geteuid() == 0:
            os.chown(private / "digests", 65534, 65534)
            self.assertTrue(has("one"))
            record(b"planted")
            os.chown(private / "digests", 0, 0)
        private.chmod(0o777)
        self.assertTrue(has("one"))
        private.chmod(0o700)
        self.assertTrue(has("planted"))
        # Another file of equal size and time, written in place.
        compiler.write_bytes(b"two")
        os.utime(compiler, ns=(state.st_atime_ns, state.st_mtime_ns))
        self.assertTrue(has("two"))

    def test_a_digest_of_an_image_is_of_one_process(self) -> None:
        # It has no change times of its own, as the images of containers. Its state stays the same while it is open.
        with open("/proc/version", "rb") as image:
            stat = os.fstat(image.fileno())
            state = (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
            private = self.root / f"opkeep-{os.geteuid()}"
            private.mkdir(mode=0o700)
            body = f"opkeep digests 1\n{hashlib.sha256(b'v1').hexdigest()} {' '.join(map(str, state))} /proc/version\n"
            (private / "digests").write_text(f"{body}{hashlib.sha256(body.encode()).hexdigest()}\n")
            content = image.read().decode()
            toolchains = opkeep._native.Toolchains(str(self.root))
            found = toolchains.of([("compiler", "/proc/version", "")])
            self.assertEqual(found, toolchains.of([("compiler", None, content)]))
            self.assertNotEqual(found, toolchains.of([("compiler", None, "v1")]))

    def test_many_toolchains_are_not_all_remembered(self) -> None:
        toolchains = opkeep._native.Toolchains(str(self.root))

        def of(number: int) -> Any:
            return toolchains.of([("compiler", None, str(number))])

        first, second = of(0), of(1)
        for number in range(2, 32):
            of(number)
        # The first was requested again, so the second has gone.
        self.assertIs(of(0), first)
        of(32)
        self.assertIs(of(0), first)
        self.assertIsNot(of(1), second)
        self.assertEqual(of(1), second)

    def test_a_child_that_is_forked_in_a_call_of_another_thread(self) -> None:
        program = (
            "import os, signal, threading; from opkeep.triton import _toolchain as t\n"
            "def run():\n"
            "    while True:\n"
            "        for n in range(64): t._toolchains.of([('c', __import__('sys').executable, ''), ('n', None, str(n))])\n"
            "for _ in range(2): threading.Thread(target=run, daemon=True).start()\n"
            "for n in range(200):\n"
            "    child = os.fork()\n"
            "    if child == 0:\n"
            "        signal.alarm(20)\n"
            "        t._toolchains.of([('c', '/bin/sh', ''), ('n', None, str(n))])\n"
            "        os._exit(0)\n"
            "    assert os.waitpid(child, 0)[1] == 0, n\n"
            "os._exit(0)"
        )
        output = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, timeout=60)
        self.assertEqual((output.returncode, output.stderr), (0, ""))

    def test_digests_stay_where_they_are_if_the_program_changes_its_directory(self) -> None:
        program = (
            "import os, sys; from opkeep.triton import _toolchain as t; os.chdir('/')\n"
            "if os.fork() == 0: t._toolchains.of([('python', sys.executable, '')]); os._exit(0)\n"
            "sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))"
        )
        (self.root / "work").mkdir()
        environment = {**os.environ, "TMPDIR": "work", "PYTHONPATH": os.pathsep.join(sys.path)}
        subprocess.run([sys.executable, "-c", program], env=environment, cwd=self.root, check=True)
        self.assertTrue((self.root / "work" / f"opkeep-{os.geteuid()}").is_dir())


if __name__ == "__main__":
    unittest.main()
