"""Starts the last link, beside the compiler."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from opkeep_standin import link  # noqa: the path has to be set first

link.main(sys.argv[1:])
