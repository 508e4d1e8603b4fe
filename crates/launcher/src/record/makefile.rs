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

/// Whether the arguments of make name its makefile: without a name, it takes the first of several that it finds.
pub(super) fn has_named_makefile(program: &Program) -> bool {
    /// The letters of options that have a value.
    const WITH_VALUE: &[u8] = b"CEIOWjlo";
    program.args.iter().skip(1).any(|arg| match arg.as_encoded_bytes() {
        [b'-', b'-', name @ ..] => name.starts_with(b"file") || name.starts_with(b"makefile"),
        [b'-', letters @ ..] => {
            letters.iter().take_while(|it| !WITH_VALUE.contains(it)).any(|it| *it == b'f')
        }
        _ => false,
    })
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
    fn a_makefile_is_named_by_an_option() {
        let is_named = |args: &str| {
            let args = args.split(' ').map(Into::into).collect();
            has_named_makefile(&Program { args, ..Program::default() })
        };
        for args in ["make -f x", "make -sf x", "make -fx", "make all --file=x", "make --makefile x"] {
            assert!(is_named(args), "{args}");
        }
        for args in ["make", "make -s all", "make -Iof", "make f", "make -C f", "make --force"] {
            assert!(!is_named(args), "{args}");
        }
    }

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
