"""What fails a run of tests though Python only prints it."""

from __future__ import annotations

import subprocess
import sys
import unittest
from pathlib import Path

END = "Implicitly cleaning up <TemporaryDirectory"
FAULTS = {
    "a directory that is not removed": ("import tempfile; directory = tempfile.TemporaryDirectory()", END),
    "a directory that a test forgets": ("import tempfile; tempfile.TemporaryDirectory()", END),
    "a file that is not closed": ("open('/dev/null')", "unclosed file"),
    "an exception in a thread": ("import threading; t = threading.Thread(target=lambda: 1 / 0); t.start(); t.join()", "division"),
}


class FaultTest(unittest.TestCase):
    def run_program(self, program: str) -> tuple[int, str]:
        command = [sys.executable, "-X", "dev", "-W", "error", "-c", f"import faults\n{program}"]
        ended = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True)
        return ended.returncode, ended.stderr

    def test_a_fault_that_is_only_printed_fails_the_run(self) -> None:
        for fault, (program, text) in FAULTS.items():
            with self.subTest(fault):
                code, errors = self.run_program(program)
                self.assertEqual(code, 1)
                self.assertIn(text, errors)
                self.assertIn("a fault was printed above", errors)

    def test_a_run_without_a_fault_passes(self) -> None:
        program = "import tempfile; directory = tempfile.TemporaryDirectory(); directory.cleanup()"
        self.assertEqual(self.run_program(program), (0, ""))


if __name__ == "__main__":
    unittest.main()
