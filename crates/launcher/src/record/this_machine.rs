//! What a run depends on of the processor on which it runs.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use opkeep_fs::Fs;
use opkeep_process::Observation;

use super::Run;
use crate::reason::Reason;

/// Variables whose words compilers take as arguments.
const ARGUMENTS: [&str; 3] = ["CCC_OVERRIDE_OPTIONS", "NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS"];

/// The largest file of options that is read.
const MAX_OPTIONS: u64 = 1 << 20;

impl Run<'_> {
    /// Whether an argument asks a compiler for the instructions of this machine. Such a compiler asks the processor itself, which no observer
    /// sees. Arguments are in files, too: in those that others name by `@`, and in compilers' own ones.
    pub(super) fn check_machine(&self) -> Result<(), Reason> {
        let Observation { programs, read, .. } = self.seen;
        let found = programs.iter().flat_map(|program| [&program.args, &program.file_args]);
        let variables = self.env.iter().filter(|(name, _)| ARGUMENTS.iter().any(|known| name == known));
        let variables = variables.map(|(_, value)| words(value.as_bytes()));
        let options = read.keys().filter(|path| has_options(path));
        let files =
            options.filter_map(|path| Fs::new().read(path, MAX_OPTIONS).ok()).map(|text| words(&text));
        let further: Vec<Vec<OsString>> = variables.chain(files).collect();
        let lists = found.chain([&self.task.run.args]).chain(&further);
        match lists.into_iter().find_map(|args| means_this_machine(args)) {
            Some(arg) => Err(Reason::ThisMachine(arg.to_string_lossy().into_owned())),
            None => Ok(()),
        }
    }
}

/// Whether a file has options of a compiler: clang's `.cfg`, gcc's `specs`.
fn has_options(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "cfg" || extension == "specs")
        || path.file_name().is_some_and(|name| name == "specs")
}

fn words(text: &[u8]) -> Vec<OsString> {
    let words = text.split(|byte| byte.is_ascii_whitespace() || matches!(byte, b'"' | b'\''));
    words.map(|word| std::ffi::OsStr::from_bytes(word).to_owned()).collect()
}

/// The argument that is `-march=native` or the like, or `native` behind such a name, or has one of them behind a comma.
fn means_this_machine(args: &[OsString]) -> Option<&OsString> {
    let names_processor = |word: &[u8]| {
        word.starts_with(b"-")
            && [&b"arch"[..], b"cpu", b"tune"]
                .iter()
                .any(|name| word.windows(name.len()).any(|it| it == *name))
    };
    let mut before: &[u8] = b"";
    args.iter().find(|arg| {
        arg.as_bytes().split(|byte| *byte == b',').any(|word| {
            let is_native = word.ends_with(b"=native") || word == b"native" && names_processor(before);
            // It only hands the next word on.
            if word != b"-Xclang" {
                before = word;
            }
            is_native
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_this_machine_are_known() {
        let means = |text: &str| {
            let args: Vec<OsString> = text.split(' ').map(OsString::from).collect();
            means_this_machine(&args).is_some()
        };
        for text in [
            "-O2 -march=native",
            "-mcpu=native",
            "-arch=native",
            "--offload-arch=native x.cu",
            "-C target-cpu=native",
            "-cc1 -target-cpu native",
            "-Wl,-mllvm,-mcpu=native,-x",
            "-Xclang -tune-cpu -Xclang native",
        ] {
            assert!(means(text), "{text}");
        }
        for text in ["-march=armv8-a", "native", "-o native", "-march=nativeclient", "-DNATIVE=1"] {
            assert!(!means(text), "{text}");
        }
    }
}
