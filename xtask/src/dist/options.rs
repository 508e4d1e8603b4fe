//! The arguments of the task.

use std::path::PathBuf;

use super::platform::{PLATFORMS, Platform};

const USAGE: &str = "usage: cargo xtask dist [--target TRIPLE]... [--out DIR] [--check]";

/// The arguments.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Options {
    pub(super) platforms: Vec<&'static Platform>,
    /// The directory for the archives.
    pub(super) out: PathBuf,
    /// Whether to build twice and compare, and to validate the bills of materials.
    pub(super) check: bool,
}

impl Options {
    pub(super) fn parse(args: &[String]) -> Result<Self, String> {
        let mut options = Self { platforms: Vec::new(), out: PathBuf::from("target/archives"), check: false };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("`{arg}` needs a value\n{USAGE}"));
            match arg.as_str() {
                "--target" => options.add(value()?)?,
                "--out" => options.out = PathBuf::from(value()?),
                "--check" => options.check = true,
                other => return Err(format!("found `{other}`\n{USAGE}")),
            }
        }
        if options.platforms.is_empty() {
            options.platforms = PLATFORMS.iter().collect();
        }
        Ok(options)
    }

    fn add(&mut self, triple: &str) -> Result<(), String> {
        let platform = PLATFORMS.iter().find(|platform| platform.triple == triple).ok_or_else(|| {
            let known: Vec<&str> = PLATFORMS.iter().map(|platform| platform.triple).collect();
            format!("`--target {triple}`: expected one of {}", known.join(", "))
        })?;
        if !self.platforms.contains(&platform) {
            self.platforms.push(platform);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, String> {
        Options::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn all_platforms_are_the_default() {
        let options = parse("").unwrap();
        assert_eq!(options.platforms.len(), PLATFORMS.len());
        assert!(!options.check);
        let options = parse("--check --target aarch64-unknown-linux-musl --out x").unwrap();
        assert_eq!(options.platforms, [&PLATFORMS[1]]);
        assert_eq!((options.out, options.check), (PathBuf::from("x"), true));
    }

    #[test]
    fn a_platform_is_built_once() {
        let twice = "--target x86_64-unknown-linux-musl --target x86_64-unknown-linux-musl";
        assert_eq!(parse(twice).unwrap().platforms.len(), 1);
    }

    #[test]
    fn wrong_arguments_are_named() {
        for (line, expected) in [
            ("--target", "`--target` needs a value"),
            ("--target riscv", "`--target riscv`: expected one of x86_64-unknown-linux-musl, "),
            ("--chekc", "found `--chekc`"),
        ] {
            assert!(parse(line).unwrap_err().starts_with(expected), "{line}");
        }
    }
}
