//! The Python interpreter of the toolkit's programs, found through scripts and links.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use opkeep_backend::{BackendError, Context, FailedTool, ToolKind};
use opkeep_fs::Fs;
use opkeep_process::{ProcessBuilder, Sandbox, error_line, tail};
use serde::{Deserialize, Serialize};

use crate::process_error::backend_error;

/// The timeout for a script that starts the interpreter.
const LIMIT: Duration = Duration::from_secs(60);

/// The help if Python cannot be used.
pub(crate) const PYTHON_HELP: &str = "set HI_PYTHON to the Python that the toolkit is installed for";

/// Prints the arguments and the environment that a script passes on, as hexadecimal bytes: they need not be UTF-8.
const ASK: &str = "import os, sys\n\
    line = open('/proc/self/cmdline', 'rb').read()\n\
    pairs = b''.join(k + b'=' + v + b'\\0' for k, v in sorted(os.environb.items()))\n\
    print('\\nopkeep', os.fsencode(sys.executable).hex(), line.hex(), pairs.hex(), 'end')\n";

/// The interpreter, its options and its environment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Interpreter {
    /// The program itself, or a link to it: a virtual environment is found by the link.
    pub(crate) program: PathBuf,
    /// Options that a script passes to the interpreter.
    pub(crate) arguments: Vec<OsString>,
    /// The interpreter's complete environment.
    pub(crate) environment: Vec<(OsString, OsString)>,
}

impl Interpreter {
    /// The interpreter that `named` starts. A script is run once, and then the interpreter is started without it: the
    /// files that a script reads are unknown.
    ///
    /// # Errors
    /// There is no such program, or the script does not start a Python.
    pub(crate) fn resolve(
        cx: &Context<'_>,
        named: &Path,
        environment: &[(OsString, OsString)],
    ) -> Result<Self, BackendError> {
        let direct =
            Self { program: named.to_owned(), arguments: Vec::new(), environment: environment.to_vec() };
        if Fs::new().starts_with(named, b"\x7fELF") {
            return Ok(direct);
        }
        let args = ["-S", "-c", ASK].map(OsString::from);
        let variables: Vec<(&OsStr, &OsStr)> =
            environment.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str())).collect();
        let run = ProcessBuilder {
            program: named,
            args: &args,
            environment: &variables,
            dir: Path::new("/"),
            log: None,
            deadline: cx.deadline_before(Some(Instant::now() + LIMIT)),
            cancel: cx.cancel,
            sandbox: Sandbox::default(),
        };
        let ended = run.wait_with_output().map_err(backend_error)?;
        answered(&ended.output).ok_or_else(|| {
            let why = error_line(&ended.output).unwrap_or_else(|| ended.ending());
            let problem = format!("`{}` starts no Python: {why}", named.display());
            let (command, output) = (run.to_string(), tail(&ended.output));
            BackendError::failed_tool(
                problem,
                PYTHON_HELP,
                FailedTool { kind: ToolKind::Other, command, output },
            )
        })
    }

    /// The environment for a program that starts the interpreter itself.
    pub(crate) fn for_programs(&self, environment: &[(OsString, OsString)]) -> Vec<(OsString, OsString)> {
        if !self.arguments.is_empty() {
            // Only the script passes the options to the interpreter.
            return environment.to_vec();
        }
        let own = [(OsStr::new("HI_PYTHON"), self.program.as_os_str())];
        let found = self.environment.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()));
        merged(found.chain(own))
    }
}

/// The answer that the interpreter printed.
fn answered(output: &str) -> Option<Interpreter> {
    use std::os::unix::ffi::OsStringExt;
    let line = output.lines().rev().find(|line| line.starts_with("opkeep ") && line.ends_with(" end"))?;
    let mut words = line.split(' ').skip(1).map(bytes);
    let (program, line, environment) = (words.next()??, words.next()??, words.next()??);
    let text = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
    let arguments: Vec<OsString> = line.split(|byte| *byte == 0).skip(1).map(text).collect();
    let own = arguments.iter().position(|argument| argument == "-S")?;
    let pair = |pair: &[u8]| {
        let at = pair.iter().position(|byte| *byte == b'=')?;
        Some((text(&pair[..at]), text(&pair[at + 1..])))
    };
    let environment = environment.split(|byte| *byte == 0).filter_map(pair).collect();
    Some(Interpreter { program: text(&program).into(), arguments: arguments[..own].to_vec(), environment })
}

fn bytes(hexadecimal: &str) -> Option<Vec<u8>> {
    let byte = |at| u8::from_str_radix(hexadecimal.get(at..at + 2)?, 16).ok();
    (0..hexadecimal.len()).step_by(2).map(byte).collect()
}

/// An environment with another directory for temporary files.
pub(crate) fn with_temporary<'a>(
    environment: &'a [(OsString, OsString)],
    directory: &'a Path,
) -> Vec<(&'a OsStr, &'a OsStr)> {
    let others = environment.iter().filter(|(name, _)| name != "TMPDIR");
    let all = others.map(|(name, value)| (name.as_os_str(), value.as_os_str()));
    all.chain([(OsStr::new("TMPDIR"), directory.as_os_str())]).collect()
}

/// The variables of an environment; of two with one name, the later one counts.
pub(crate) fn merged<'a>(
    variables: impl IntoIterator<Item = (&'a OsStr, &'a OsStr)>,
) -> Vec<(OsString, OsString)> {
    let all: BTreeMap<&OsStr, &OsStr> = opkeep_order::map(variables);
    all.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_by_a_script_are_read() {
        let hex = |text: &str| text.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
        let line = hex("python3\0-O\0-S\0-c\0x\0");
        let output = format!("noise\nopkeep {} {line} {} end\n", hex("/usr/bin/python3"), hex("A=1=2\0B=\0"));
        let found = answered(&output).unwrap();
        assert_eq!(found.program, Path::new("/usr/bin/python3"));
        assert_eq!(found.arguments, ["-O"]);
        assert_eq!(found.environment, [("A".into(), "1=2".into()), ("B".into(), "".into())]);
        for cut in ["", "opkeep 6 end", "opkeep zz zz zz end", "opkeep 61 61 end"] {
            assert_eq!(answered(cut), None, "{cut}");
        }
    }
}
