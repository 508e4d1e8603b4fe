"""From an operator's type to the function that compiles it."""
import importlib
import importlib.util
import os
import sys

from tbe.common import register as tbe_register
from tbe.common.utils import log as logger

import op_info_store
from constant import default_name

MIDDLE_PATHS = ("op_impl/ai_core/tbe", "op_impl/vector_core/tbe")


def find_function(op_type, dynamic):
    """The function: of custom packages, of vendors, then the built-in one."""
    for folder in op_info_store.CUSTOM:
        found = _of_package(op_type, folder, os.path.basename(folder.rstrip("/")))
        if found:
            return found
    for folder in op_info_store.VENDORS:
        found = _of_package(op_type, folder, os.path.basename(folder) + "_impl")
        if found:
            return found
    return _built_in(op_type, dynamic)


def _of_package(op_type, folder, package):
    """The function in `<folder>/op_impl/ai_core/tbe/<package>/`, or in `dynamic` below it."""
    name = default_name(op_type)
    for middle in MIDDLE_PATHS:
        base = "%s/%s" % (folder, middle)
        for module in (package, package + ".dynamic"):
            if os.path.isfile("%s/%s/%s.py" % (base, module.replace(".", "/"), name)):
                if base not in sys.path:
                    sys.path.append(base)
                return getattr(importlib.import_module("%s.%s" % (module, name)), name)
    return None


def _built_in(op_type, dynamic):
    info = op_info_store.find(op_type)
    package = "impl.dynamic" if dynamic or info and info.dynamic_compile_static == "true" else "impl"
    if package == "impl.dynamic":
        importlib.import_module(package)
        operator = tbe_register.get_operator(op_type)
        if operator is not None:
            return operator.get_func()
    if info is None:
        return None
    logger.debug("%s is an unregistered operator.", op_type)
    module = importlib.import_module("%s.%s" % (package, info.file or default_name(op_type)))
    return getattr(module, info.function or default_name(op_type))


def function_of_file(op_path, main_func, op_type):
    """The function `main_func` of the file that the command names, which is run anew each time. A file that imports
    relatively cannot be run so, and is imported after all, by a name that is often not its own."""
    module = _run(op_path) if os.path.isabs(op_path) else None
    if module is None:
        folder, name = os.path.split(os.path.splitext(op_path)[0])
        if "/impl/dynamic/" in op_path:
            module = "impl.dynamic.%s" % name
        else:
            module = "%s.%s" % (os.path.basename(folder), op_type)
            parent = os.path.dirname(folder)
            if parent and parent not in sys.path:
                sys.path.append(parent)
        try:
            module = importlib.import_module(module)
        except ImportError as problem:
            raise RuntimeError("import %s error, reason:%s." % (module, problem)) from problem
    return getattr(module, main_func)


def _run(path):
    name = os.path.splitext(os.path.basename(path))[0]
    try:
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    except ImportError as problem:
        logger.debug("Import op_path %s did not succeed: %s", path, problem)
        return None
