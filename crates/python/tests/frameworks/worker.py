"""One interpreter of a case: it reads commands as JSON lines, and answers each with one.

Arguments: the module with the kernels, the backend. Standard output carries nothing but answers.
"""

import importlib
import json
import os
import sys
import time
import traceback
from concurrent.futures import ThreadPoolExecutor


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
    if "nested" in command:
        nest(module, command)
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


def nest(module: object, command: dict) -> None:
    """In the middle of the next compile, when another process is there, too, compile another kernel in a thread and join it."""
    make_ir = module.ASTSource.make_ir

    def nested(*args, **named):
        module.ASTSource.make_ir = make_ir
        report_and_wait(*command["meet"])
        with ThreadPoolExecutor(1) as pool:
            pool.submit(module.compile_kernel, command["nested"], sys.argv[2]).result()
        return make_ir(*args, **named)

    module.ASTSource.make_ir = nested


def wait_at_gate(command: dict) -> None:
    """Report that the gate is reached, and wait for it to open."""
    if "gate" in command:
        report_and_wait(command["gate"] + ".reached", command["gate"])


def report_and_wait(own: str, other: str) -> None:
    """Create a file, and wait for another one, at most 20 seconds."""
    with open(own, "w"):
        pass
    give_up = time.monotonic() + 20
    while not os.path.exists(other) and time.monotonic() < give_up:
        time.sleep(0.005)


main()
