"""One interpreter of a case: it reads commands as JSON lines, and answers each with one.

Arguments: the module with the kernels, the backend. Standard output carries nothing but answers.
"""

import importlib
import json
import os
import sys
import time
import traceback


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    module = importlib.import_module(sys.argv[1])
    known = module.warm_up(os.environ.get("HARNESS_KEY"))
    kept: list[BaseException] = []
    print(json.dumps({"ready": os.getpid(), "key": known}), file=answers)
    for line in sys.stdin:
        answer = obey(module, json.loads(line), kept)
        print(json.dumps(answer), file=answers)


def obey(module: object, command: dict, kept: list[BaseException]) -> dict:
    """Compile as `command` says. Its exception goes to `kept` if the command says so."""
    os.environ.update(command.get("environment", {}))
    if "writer" in command:
        write_as(module, command)
    if "at" in command:
        time.sleep(max(0.0, command["at"] - time.monotonic()))
    answer: dict = {"error": None}
    started = time.monotonic()
    try:
        answer.update(module.compile_kernel(command["kernel"], sys.argv[2]))
    except Exception as error:
        answer["error"] = type(error).__name__
        answer["text"] = str(error)
        traceback.print_exc()
        if command.get("keep"):
            kept.append(error)
    answer["end"] = time.monotonic()
    answer["seconds"] = answer["end"] - started
    for name in command.get("environment", {}):
        del os.environ[name]
    return answer


def write_as(module: object, command: dict) -> None:
    """Put the writer's name into the metadata, and wait before they are put until the gate's file exists."""
    manager = module.manager_class()
    put = manager.put

    def marked(self, data, filename, binary=True):
        if filename.endswith(".json") and not filename.startswith("__grp__"):
            data = json.dumps({**json.loads(data), "writer": command["writer"]})
            wait_at_gate(command)
        return put(self, data, filename, binary)

    manager.put = marked


def wait_at_gate(command: dict) -> None:
    """Report that the gate is reached, and wait for it to open, at most 20 seconds."""
    if "gate" not in command:
        return
    with open(command["gate"] + ".reached", "w"):
        pass
    give_up = time.monotonic() + 20
    while not os.path.exists(command["gate"]) and time.monotonic() < give_up:
        time.sleep(0.005)


main()
