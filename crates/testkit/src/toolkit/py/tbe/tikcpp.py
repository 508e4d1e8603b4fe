"""Ascend C: operators whose source is C++ under `impl/ascendc`."""
import hashlib
import os

from tbe.tvm.runtime import cce_runtime


def compile_op(folder, config, tensors_text):
    """Compiles the sources in `folder`, which are all of the operator's, headers too."""
    text, digests = [tensors_text], {}
    for path in sorted(_files(folder)):
        with open(path, "rb") as file:
            digests[os.path.relpath(path, folder)] = hashlib.sha256(file.read()).hexdigest()
    text += ["#include %s %s" % item for item in sorted(digests.items())]
    cce_runtime.build(config, "\n".join(text), config.get("mix") is not None, config.get("mix"), ascend_c=True)


def _files(folder):
    for parent, _, names in os.walk(folder):
        for name in names:
            yield os.path.join(parent, name)
