"""The end of tickets whose compile has failed.

A failed compile calls nothing. Unless the exception is kept, its frames are freed at once, and with them the manager and its
ticket. If it is kept, the ticket would stay: so a thread checks whether the frame that began it is still on the stack of its
thread, or of its greenlet. A coroutine that began one and is suspended counts as ended, since it may never go on;
it publishes its files without the ticket then.

A frame is known by its identity and its code. While it runs, no other frame has this identity. If it has ended and the manager is
referred to elsewhere, a later frame may have it: its request has a manager of its own, which ends the ticket. So a ticket is
never released early, and never kept for longer than the next check after that.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any, NamedTuple

from ._log import warn_once

if TYPE_CHECKING:
    from types import CodeType, FrameType

    from ._manager import CacheManager

_INTERVAL = 0.2
"""The seconds between two checks."""


class _Watched(NamedTuple):
    manager: weakref.ref[CacheManager]
    thread: int
    # Not the frame: it would keep all of its variables.
    frame: int
    code: CodeType
    greenlet: weakref.ref[Any] | None

    def is_of(self, frame: FrameType) -> bool:
        return id(frame) == self.frame and frame.f_code is self.code

    def is_running(self) -> bool:
        greenlet = self.greenlet() if self.greenlet is not None else None
        # The second has a frame while it is suspended. Its frames are on no thread's stack then.
        for frame in (sys._current_frames().get(self.thread), getattr(greenlet, "gr_frame", None)):
            while frame is not None:
                if self.is_of(frame):
                    return True
                frame = frame.f_back
        return False


_lock = threading.RLock()
_watched: list[_Watched] = []
_has_thread = False


def watch(manager: CacheManager, frame: FrameType) -> None:
    """Release the ticket of `manager` when `frame` of this thread has ended."""
    global _has_thread
    greenlets = sys.modules.get("greenlet")
    greenlet = weakref.ref(greenlets.getcurrent()) if greenlets is not None else None
    entry = _Watched(weakref.ref(manager), threading.get_ident(), id(frame), frame.f_code, greenlet)
    with _lock:
        _watched.append(entry)
        if _has_thread:
            return
        try:
            threading.Thread(target=_run, name="opkeep-tickets", daemon=True).start()
            _has_thread = True
        except RuntimeError:
            # The interpreter is ending, or there are too many threads: nothing would check the ticket.
            _watched.remove(entry)
            manager.release()


def release_ended(manager: CacheManager, frame: FrameType) -> None:
    """Release the tickets of this thread whose frames have ended, before `manager` begins one in `frame`: a thread that holds
    a ticket does not wait."""
    thread = threading.get_ident()
    for entry in list(_watched):
        if entry.thread == thread and entry.manager() is not manager:
            _check(entry, frame)


def _run() -> None:
    global _has_thread
    while True:
        time.sleep(_INTERVAL)
        _check_all()
        with _lock:
            if not _watched:
                _has_thread = False
                return


def _check_all() -> None:
    for entry in list(_watched):
        try:
            _check(entry)
        except Exception as error:  # The others are checked, too, and those that begin later.
            warn_once("tickets", f"a ticket was not checked: {type(error).__name__}: {error}", error)


def _check(entry: _Watched, caller: FrameType | None = None) -> None:
    """Release the ticket if its frame has ended, and remove from the list what need not be watched any more.

    `caller` is a frame with a request of another manager than that of the ticket, so the ticket is not its own.
    """
    # A frame that is looked at may end meanwhile, and its variables are freed here: that may run any code, so it is not done
    # under the lock.
    manager = entry.manager()
    has_ended = manager is not None and manager.has_ticket
    if has_ended and entry.is_running() and (caller is None or not entry.is_of(caller)):
        return
    with _lock:
        if entry in _watched:
            _watched.remove(entry)
    # A manager that had no ticket may have one by now.
    if manager is not None and has_ended:
        manager.release()


def _reset() -> None:
    """Begin anew in a forked child: tickets and threads are its parent's."""
    global _lock, _has_thread
    _lock = threading.RLock()
    _watched.clear()
    _has_thread = False


os.register_at_fork(after_in_child=_reset)
