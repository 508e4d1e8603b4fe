#!/bin/sh
# The linker of the stand-in: takes what the compiler made as it is.
# @STAMP@
object=; output=; emulation=
while [ $# -gt 0 ]; do
    case $1 in
        -m) emulation=$2; shift ;;
        -o) output=$2; shift ;;
        -*) ;;
        *) object=$1 ;;
    esac
    shift
done
[ "$emulation" = aicorelinux ] || { echo "ld.lld: error: unknown emulation: $emulation" >&2; exit 1; }
while IFS= read -r line; do printf '%s\n' "$line"; done < "$object" > "$output"
