#!/bin/sh
here=$(dirname "$(readlink -f "$0")")
"${HI_PYTHON:-python3}" "$here/../../python/site-packages/@TOOL@" "$@"
