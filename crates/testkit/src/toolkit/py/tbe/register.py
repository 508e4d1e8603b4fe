"""Operators by type. What was read when a module was imported stays: an interpreter never sees a later edit."""
import ast
import functools
import hashlib
import sys

OPERATORS = {}


class Operator:
    def __init__(self, op_type, func, sources):
        self.op_type, self.func, self.sources = op_type, func, sources

    def get_func(self):
        return self.func


def register_operator(op_type):
    """Says that the function is the one of this type in its package."""
    def decorate(func):
        sources = _sources(func)

        @functools.wraps(func)
        def run(*arguments, **named):
            run.sources = sources
            return func(*arguments, **named)
        run.sources = sources
        OPERATORS[func.__module__.rsplit(".", 1)[0], op_type] = Operator(op_type, run, sources)
        return run
    return decorate


def get_operator(op_type, package="impl.dynamic"):
    return OPERATORS.get((package, op_type))


def unwrapped(func):
    """The function that decorators were put around."""
    while hasattr(func, "__wrapped__"):
        func = func.__wrapped__
    return func


def _sources(func):
    """Digests of the operator's file and of what it imports from operator packages, by path."""
    func = unwrapped(func)
    found, open_files = {}, [(func.__module__, func.__code__.co_filename)]
    while open_files:
        name, path = open_files.pop()
        where = "/".join(path.split("/")[-3:])
        if where in found:
            continue
        with open(path, "rb") as file:
            content = file.read()
        found[where] = hashlib.sha256(content).hexdigest()
        for other in _imports(name, content, func.__globals__ if name == func.__module__ else {}):
            top, module = other.split(".")[0], sys.modules.get(other)
            if (top == "impl" or top.endswith("_impl")) and getattr(module, "__file__", None):
                open_files.append((other, module.__file__))
    return found


def _imports(name, content, variables):
    """What a module's import statements name, and the modules among its variables. Packages are only passed through."""
    for node in ast.walk(ast.parse(content)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = name.split(".")[:-node.level] if node.level else []
            base = ".".join(base + ([node.module] if node.module else []))
            yield from [base] if _is_file(base) else [base + "." + alias.name for alias in node.names]
    yield from (value.__name__ for value in list(variables.values()) if isinstance(value, type(sys)))


def _is_file(name):
    return not hasattr(sys.modules.get(name), "__path__")
