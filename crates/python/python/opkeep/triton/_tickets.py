"""The end of tickets whose compile has failed.

A failed compile calls nothing. If nobody keeps the exception, its frames are freed at once, and with them the manager and its
ticket. If somebody does, the ticket would stay: so a thread looks whether the frame that began it is still on the stack of its
thread.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import weakref
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from types import CodeType, FrameType

    from ._manager import CacheManager

_INTERVAL = 0.2
"""The seconds between two looks."""


class _Watched(NamedTuple):
    manager: weakref.ref[CacheManager]
    thread: int
    # Not the frame: it would keep all of its variables. While the manager lives and nobody else refers to it, neither is
    # freed, so no other frame gets this identity.
    frame: int
    code: CodeType


_lock = threading.Lock()
_watched: list[_Watched] = []
_has_thread = False


def watch(manager: CacheManager, frame: FrameType) -> None:
    """Release the ticket of `manager` when `frame` of this thread has ended."""
    global _has_thread
    entry = _Watched(weakref.ref(manager), threading.get_ident(), id(frame), frame.f_code)
    with _lock:
        _watched.append(entry)
        if _has_thread:
            return
        try:
            threading.Thread(target=_run, name="opkeep-tickets", daemon=True).start()
            _has_thread = True
        except RuntimeError:
            # The interpreter is ending, or there are too many threads: nobody would look.
            _watched.remove(entry)
            manager.release()


def release_ended(manager: CacheManager) -> None:
    """Release the tickets of this thread whose frames have ended, before `manager` begins one: a thread that holds a
    ticket does not wait."""
    if _watched:
        _release(_ended(threading.get_ident(), manager))


def _run() -> None:
    global _has_thread
    while True:
        time.sleep(_INTERVAL)
        _release(_ended())
        with _lock:
            if not _watched:
                _has_thread = False
                return


def _ended(thread: int | None = None, manager: CacheManager | None = None) -> list[CacheManager]:
    """Remove from the list what need not be watched any more. Return the managers whose frames have ended."""
    ended = []
    with _lock:
        kept = []
        stacks = {}
        for entry in _watched:
            found = entry.manager()
            if found is None or not found.has_ticket:
                continue
            if thread is not None and entry.thread != thread or found is manager:
                kept.append(entry)
                continue
            if entry.thread not in stacks:
                stacks[entry.thread] = _stack(entry.thread)
            if (entry.frame, entry.code) in stacks[entry.thread]:
                kept.append(entry)
            else:
                ended.append(found)
        _watched[:] = kept
    return ended


def _stack(thread: int) -> set[tuple[int, CodeType]]:
    frame = sys._current_frames().get(thread)
    stack = set()
    while frame is not None:
        stack.add((id(frame), frame.f_code))
        frame = frame.f_back
    return stack


def _release(managers: list[CacheManager]) -> None:
    for manager in managers:
        manager.release()


def _reset() -> None:
    """Begin anew in a forked child: tickets and threads are its parent's."""
    global _lock, _has_thread
    _lock = threading.Lock()
    _watched.clear()
    _has_thread = False


os.register_at_fork(after_in_child=_reset)
