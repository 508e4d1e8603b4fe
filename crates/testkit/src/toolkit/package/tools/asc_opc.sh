#!/bin/bash
# Finds its package by where it really is: a link to it works, a copy does not.
self=$(realpath "$0")
root=$(dirname "$(dirname "$(dirname "$self")")")
export PYTHONPATH="$root/python/site-packages${PYTHONPATH:+:$PYTHONPATH}"
"${HI_PYTHON:-python3}" "$root/python/site-packages/asc_opc_tool/opc.py" "$@"
