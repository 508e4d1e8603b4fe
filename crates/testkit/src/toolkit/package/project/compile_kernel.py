"""compile_kernel.py FOLDER ROWS WORDS MAKE: compiles the rows of one operator, each in a directory of its own.

FOLDER is removed before and behind. WORDS run the script of a row, whose number stands for `@ROW@` in them.
"""
import os
import shutil
import subprocess
import sys


def compile_rows(folder, rows, words, make):
    shutil.rmtree(folder, ignore_errors=True)
    lines = ["SHELL := /bin/bash", "all: %s" % " ".join("kernel_%d" % row for row in range(rows))]
    for row in range(rows):
        os.makedirs(os.path.join(folder, "kernel_%d" % row))
        lines += ["kernel_%d:" % row, "\tcd kernel_%d && %s && echo $(MAKE)" % (row, words.replace("@ROW@", str(row))),
                  ".PHONY: kernel_%d" % row]
    with open(os.path.join(folder, "Makefile"), "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    status = subprocess.run([make, "-C", folder], close_fds=False, check=False).returncode
    shutil.rmtree(folder, ignore_errors=True)
    return status


if __name__ == "__main__":
    sys.exit(compile_rows(sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]))
