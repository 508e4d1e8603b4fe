#!/bin/sh
# The compiler of the stand-in: what it compiles is copied, with what it was told. The linker makes no more of it.
# stamp @STAMP@
source=; object=; told=
while [ $# -gt 0 ]; do
    case $1 in
        --version) echo "@STAMP@"; exit 0 ;;
        -o) object=$2; shift ;;
        -c) ;;
        -*) told="$told $1" ;;
        *.cce) source=$1 ;;
        *) told="$told $1" ;;
    esac
    shift
done
[ -n "$source" ] && [ -n "$object" ] || { echo "ccec: error: no input files" >&2; exit 1; }
while read -r word rest; do
    case $word in
        '#error')
            flag=${rest#unless }
            case " $told " in
                *" ${flag:-nothing} "*) ;;
                *) echo "$source:1:2: error: the stand-in was told to fail" >&2; exit 1 ;;
            esac ;;
        '#crash') kill -SEGV $$ ;;
        '#hang') kill -STOP $$ ;;
        *) break ;;
    esac
done < "$source"
{
    echo "stamp @STAMP@"; echo "told $told"
    while IFS= read -r line; do
        case $line in '#error'*|'#crash'*|'#hang'*) ;; *) printf '%s\n' "$line" ;; esac
    done < "$source"
} > "$object"
