//! The common parts of all runs of the compiler.

use std::ffi::OsStr;
use std::path::Path;

/// All of the compiler's environment when it runs in `dir`: what else is set must not change what it does.
pub(crate) fn environment<'a>(path: &'a OsStr, dir: &'a Path) -> [(&'a OsStr, &'a OsStr); 4] {
    let named = |name, value| (OsStr::new(name), value);
    [
        named("PATH", path),
        named("TMPDIR", dir.as_os_str()),
        named("LC_ALL", OsStr::new("C")),
        // A compiler's wrapper in Python must not write beside its sources, where it would read the next time.
        named("PYTHONDONTWRITEBYTECODE", OsStr::new("1")),
    ]
}

/// The problem with a program of another architecture.
pub(crate) fn foreign(program: &Path) -> String {
    format!(
        "`{}` makes system calls of another architecture, as 32-bit programs do, so that what it reads cannot be \
         observed; use a compiler whose programs are of this machine's own architecture",
        program.display()
    )
}
