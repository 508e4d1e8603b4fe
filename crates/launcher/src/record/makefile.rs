//! Makefiles, as far as they decide which names in a directory count.
//!
//! Make lists a directory to look for a file in it: the directory in which it runs, even if no file is looked for. The names that it looks for
//! are those of targets and prerequisites, with other extensions where it tries its own rules. A makefile that takes what it finds
//! has a pattern of names.

use opkeep_process::Program;

/// The names of make: of these programs, the observer keeps the texts that they read in the work directory.
pub(crate) const MAKE: &[&str] = &["make", "gmake"];

/// Whether a program is make.
pub(super) fn is_make(program: &Program) -> bool {
    program.path.file_name().is_some_and(|name| MAKE.iter().any(|make| name == *make))
}

/// Whether a makefile names each file that it means.
pub(super) fn names_its_files(text: &[u8]) -> bool {
    // Recipes are run by other programs.
    let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.starts_with(b"\t"));
    !lines.into_iter().any(|line| {
        let is_pattern = |at: usize, byte: u8| match byte {
            b'*' | b'[' => true,
            // `A ?= b` sets a variable that has no value.
            b'?' => line.get(at + 1) != Some(&b'='),
            _ => false,
        };
        line.windows(8).any(|word| word == b"wildcard")
            || line.iter().enumerate().any(|(at, byte)| is_pattern(at, *byte))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_found_outside_of_recipes() {
        for text in ["all: k1\nk1:\n\tcc *.c -o k1\n", "A ?= b\n.PHONY: all\n", "%.o: %.c\n\tcc $<\n", ""] {
            assert!(names_its_files(text.as_bytes()), "{text}");
        }
        for text in ["all: *.c\n", "A = $(wildcard x)\n", "k: a?c\n", "k: [ab]\n", "\techo\nall: *.c"] {
            assert!(!names_its_files(text.as_bytes()), "{text}");
        }
    }
}
