//! The platforms that have archives, and what building for them needs.

use std::process::Command;

use crate::disk;

/// A platform.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Platform {
    /// Rust's name of it.
    pub(super) triple: &'static str,
    /// The processor, as in the names of programs.
    pub(super) arch: &'static str,
    /// What `readelf` calls the processor.
    pub(super) machine: &'static str,
    /// The Debian package with a C compiler for it.
    package: &'static str,
}

/// All platforms. Their binaries are static, so that they run on each Linux, whatever its C library.
pub(super) const PLATFORMS: [Platform; 2] = [
    Platform {
        triple: "x86_64-unknown-linux-musl",
        arch: "x86_64",
        machine: "Advanced Micro Devices X86-64",
        package: "musl-tools",
    },
    Platform {
        triple: "aarch64-unknown-linux-musl",
        arch: "aarch64",
        machine: "AArch64",
        package: "gcc-aarch64-linux-gnu",
    },
];

/// Returns the platform whose binaries run on this machine.
pub(super) fn native() -> Result<&'static Platform, String> {
    let arch = std::env::consts::ARCH;
    PLATFORMS
        .iter()
        .find(|platform| platform.arch == arch)
        .ok_or_else(|| format!("no archive has a binary that runs on {arch}, and man pages come from one"))
}

impl Platform {
    /// Returns the C compiler, for the crates with C code. It only compiles: the Rust toolchain has a linker, start files
    /// and a C library.
    pub(super) fn c_compiler(&self) -> Result<String, String> {
        let candidates = self.c_compilers(std::env::consts::ARCH);
        let works = |name: &&String| {
            Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success())
        };
        candidates.iter().find(works).cloned().ok_or_else(|| {
            format!(
                "{}: no C compiler is on the PATH, neither {}; install one (Debian: `apt-get install {}`)",
                self.triple,
                candidates.join(" nor "),
                self.package
            )
        })
    }

    fn c_compilers(&self, host: &str) -> Vec<String> {
        let arch = self.arch;
        let native = (arch == host).then(|| "musl-gcc".to_owned());
        [format!("{arch}-linux-musl-gcc")]
            .into_iter()
            .chain(native)
            .chain([format!("{arch}-linux-gnu-gcc")])
            .collect()
    }

    /// Fails unless Rust's library for the platform is installed.
    pub(super) fn check_installed(&self) -> Result<(), String> {
        let line = ["--print", "target-libdir", "--target", self.triple];
        let printed = disk::output("rustc", &line, None)?;
        let directory = String::from_utf8_lossy(&printed);
        if std::path::Path::new(directory.trim()).is_dir() {
            return Ok(());
        }
        let triple = self.triple;
        Err(format!("{triple}: Rust's library for it is not installed; run `rustup target add {triple}`"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_compiler_of_another_machine_is_not_musl_gcc() {
        let [x86, arm] = &PLATFORMS;
        assert_eq!(x86.c_compilers("x86_64"), ["x86_64-linux-musl-gcc", "musl-gcc", "x86_64-linux-gnu-gcc"]);
        assert_eq!(arm.c_compilers("x86_64"), ["aarch64-linux-musl-gcc", "aarch64-linux-gnu-gcc"]);
    }
}
