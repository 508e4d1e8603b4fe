"""The log of the toolkit. Lines go to files under the home directory, or to standard output where that is asked for.

This is imported at each start of the toolkit's programs, which compile all that they import: `logging` and `datetime` alone
would take a quarter of that time.
"""
import os
import sys
import time

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
SITE = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", ".."))


def _number(text, default):
    return int(text) if text is not None and text.strip().isdigit() else default


def _now(form):
    """The local time, and the microseconds that the form lacks."""
    micros = time.time_ns() // 1000
    return time.strftime(form, time.localtime(micros // 1000000)), micros % 1000000


class Slog:
    """What `libascendalog.so` does. Without that library, everything from INFO on is printed."""

    def __init__(self):
        self.level = _number(os.environ.get("ASCEND_GLOBAL_LOG_LEVEL"), 3)
        self.printed = os.environ.get("ASCEND_SLOG_PRINT_TO_STDOUT") == "1"
        self.file = None
        self.plain = None
        if not self._has_library():
            import logging
            print("[Warning]Can not find libascendalog.so")
            self.plain = logging.getLogger("TBE_AUTOSCHEDULE")
            self.plain.propagate = False
            self.plain.setLevel(logging.INFO)
            stream = logging.StreamHandler(stream=sys.stdout)
            stream.setFormatter(logging.Formatter("[%(levelname)s][%(asctime)s]%(message)s"))
            self.plain.addHandler(stream)

    @staticmethod
    def _has_library():
        folders = os.environ.get("LD_LIBRARY_PATH", "").split(":")
        return any(os.path.isfile(os.path.join(folder, "libascendalog.so")) for folder in folders if folder)

    def record(self, level, message):
        if self.plain is not None:
            self.plain.log((level + 1) * 10, message)
        elif level >= self.level:
            when, micros = _now("%Y-%m-%d-%H:%M:%S")
            when += ".%03d.%03d" % divmod(micros, 1000)
            self._put("[%s] TBE(%d,python3):%s %s\n" % (LEVELS[level], os.getpid(), when, message))

    def _put(self, line):
        if self.printed:
            sys.stdout.write(line)
            sys.stdout.flush()
            return
        try:
            if self.file is None:
                folder = os.environ.get("ASCEND_PROCESS_LOG_PATH") or os.path.expanduser("~/ascend/log")
                folder = os.path.join(folder, "debug", "plog")
                os.makedirs(folder, exist_ok=True)
                when, micros = _now("%Y%m%d%H%M%S")
                name = "plog-%d_%s%03d.log" % (os.getpid(), when, micros // 1000)
                self.file = open(os.path.join(folder, name), "a", encoding="utf-8")
            self.file.write(line)
            self.file.flush()
        except OSError:
            pass


SLOG = Slog()


def _say(level, message, arguments):
    frame = sys._getframe(2)
    code = frame.f_code
    where = "[%s:%d][%s] " % (os.path.relpath(os.path.realpath(code.co_filename), SITE), frame.f_lineno, code.co_name)
    SLOG.record(level, where + (message % arguments if arguments else message))


def debug(message, *arguments):
    _say(0, message, arguments)


def info(message, *arguments):
    _say(1, message, arguments)


def warn(message, *arguments):
    _say(2, message, arguments)


def error(message, *arguments):
    _say(3, message, arguments)


def set_level(name):
    """By the name that `--log` has; unknown ones are errors only."""
    SLOG.level = {"debug": 0, "info": 1, "warning": 2, "error": 3}.get(name, 3)
