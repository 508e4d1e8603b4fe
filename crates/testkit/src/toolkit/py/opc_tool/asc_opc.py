"""The command `asc_opc` of newer releases: no banks and no `--impl_path`, and a compile that fails is told."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "opc_tool"))

from opc import main  # noqa: the path has to be set first
from option_parser import DEFAULTS, OpcOptionParser  # noqa


class AscOpcOptionParser(OpcOptionParser):
    """The options that this command has."""

    known = {name: default for name, default in DEFAULTS.items()
             if name not in ("mdl_bank_path", "op_bank_path", "impl_path", "graph")}


if __name__ == "__main__":
    sys.exit(main(AscOpcOptionParser(), sys.argv[1:], failure=1))
