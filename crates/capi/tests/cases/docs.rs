//! `docs/c.md`: each program is compiled, and each command runs, in the order of the page.

use std::fs;
use std::path::Path;
use std::process::Command;

use libtest_mimic::{Failed, Trial};

use crate::prefix::{prefix, source};
use crate::toolchain::output;

/// A block of the page that starts so only runs on request: it needs cargo-c, and compiles for minutes.
const ON_REQUEST: &str = "cargo install cargo-c";

pub(crate) fn trials() -> Vec<Trial> {
    let has_programs = ["cc", "c++", "pkg-config"]
        .iter()
        .all(|program| Command::new(program).arg("--version").output().is_ok());
    let page = Trial::test("docs/c.md", page).with_ignored_flag(!has_programs);
    let installation =
        Trial::test("docs/c.md, its installation (takes minutes, and needs the network)", installation);
    vec![page, installation.with_ignored_flag(true)]
}

/// The language and the text of each block of code.
fn blocks(page: &str) -> Vec<(&str, &str)> {
    let mut parts = page.split("\n```");
    parts.next();
    let blocks: Vec<_> = parts.step_by(2).filter_map(|block| block.split_once('\n')).collect();
    assert!(blocks.len() > 4, "the page has blocks of code");
    blocks
}

fn text() -> String {
    fs::read_to_string(source("../../docs/c.md")).unwrap()
}

fn page() -> Result<(), Failed> {
    let (page, dir) = (text(), tempfile::tempdir()?);
    // No test writes to the directories that the page names.
    let store = dir.path().join("store").display().to_string();
    let shared = dir.path().join("shared");
    fs::create_dir(&shared)?;
    let page = page
        .replace("/usr/local", &prefix().display().to_string())
        .replace("/var/cache/kernels", &store)
        .replace("/mnt/kernels", &shared.display().to_string());
    for (language, block) in blocks(&page) {
        match language {
            "c" | "cpp" => {
                let name = block.split_whitespace().nth(1).ok_or("the block names its file")?;
                fs::write(dir.path().join(name), block)?;
            }
            "sh" if block.starts_with(ON_REQUEST) => {}
            "sh" => shell(block, dir.path())?,
            "json" => opkeep_artifact::Expectations::decode(block.trim().as_bytes()).map(drop)?,
            other => return Err(format!("the page has a block of `{other}`").into()),
        }
    }
    Ok(())
}

fn shell(commands: &str, dir: &Path) -> Result<(), Failed> {
    let lib = prefix().join("lib");
    let mut command = Command::new("sh");
    command.args(["-euc", commands]).current_dir(dir).env("LD_LIBRARY_PATH", &lib);
    command.env("PKG_CONFIG_PATH", lib.join("pkgconfig"));
    output(&mut command)?;
    Ok(())
}

fn installation() -> Result<(), Failed> {
    let page = text();
    let block = blocks(&page).into_iter().map(|(_, block)| block).find(|block| block.starts_with(ON_REQUEST));
    let dir = tempfile::tempdir()?;
    let commands = block
        .ok_or("the page installs the library")?
        .replace("/usr/local", &dir.path().display().to_string());
    shell(&commands, &source("../.."))?;
    for file in ["lib/libopkeep.so.1", "lib/libopkeep.a", "include/opkeep.h", "include/opkeep.hpp"] {
        assert!(dir.path().join(file).exists(), "{file}");
    }
    Ok(())
}
