//! A toolkit that is installed.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use super::control::{self, Compile, Rule};
use super::disk;
use super::paths::{self, ARCH};
use super::plan::Toolkit;
use super::tree::{self, LISTS, TBE};
use super::vendor::Vendor;

impl Toolkit {
    /// Installs it below `folder`.
    ///
    /// # Errors
    /// The directory cannot be written to.
    pub fn write(&self, folder: &Path) -> io::Result<Installation> {
        Installation::write(self, folder)
    }
}

/// A toolkit that is installed, to be used and to be changed.
#[derive(Clone, Debug)]
pub struct Installation {
    plan: Toolkit,
    folder: PathBuf,
    versioned: PathBuf,
    link: PathBuf,
}

impl Installation {
    pub(super) fn write(plan: &Toolkit, folder: &Path) -> io::Result<Self> {
        let [versioned, link] = tree::places(plan).map(|place| folder.join(place));
        let own = Self { plan: plan.clone(), folder: folder.to_owned(), versioned, link };
        disk::folder(&own.control("used"))?;
        own.set_rules(&json!([]))?;
        tree::write(plan, &own.versioned, &own.link)?;
        Ok(own)
    }

    /// The directory that it was installed to: what `/usr/local/Ascend` is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The root, by the link that stays when versions change: what `ASCEND_HOME_PATH` names.
    pub fn root(&self) -> &Path {
        &self.link
    }

    /// The root itself, called after the version.
    pub fn versioned_root(&self) -> &Path {
        &self.versioned
    }

    /// A file below the root: `compiler/version.info`.
    pub fn path(&self, path: &str) -> PathBuf {
        self.link.join(path)
    }

    /// The op package: what `ASCEND_OPP_PATH` names.
    pub fn opp(&self) -> PathBuf {
        self.path("opp")
    }

    /// A program: `opc`, `asc_opc`, `ccec`, `ld.lld`.
    pub fn tool(&self, name: &str) -> PathBuf {
        let folder = if name.contains("opc") { "bin" } else { "ccec_compiler/bin" };
        self.path(&format!("{ARCH}-linux")).join(folder).join(name)
    }

    /// A file of the operators: `square.py`, `dynamic/square.py`, `util/util_common.py`,
    /// `ascendc/add_rms_norm/add_rms_norm.cpp`.
    pub fn impl_file(&self, path: &str) -> PathBuf {
        self.path(TBE).join("impl").join(path)
    }

    /// The operator information of a family of chips, by its short name in any case: `Ascend910B`.
    pub fn op_info(&self, short: &str) -> PathBuf {
        paths::op_info(&self.path(TBE), &short.to_lowercase())
    }

    /// The platform configuration of a chip.
    pub fn platform_config(&self, soc: &str) -> PathBuf {
        paths::platform_config(&self.link, soc)
    }

    /// The variables that `set_env.sh` sets. A list continues with the value of the process; `path` is that of `PATH`.
    pub fn environment(&self, path: &str) -> Vec<(&'static str, OsString)> {
        let joined = |(name, values): (&'static str, Vec<PathBuf>)| {
            let mut value = OsString::new();
            for (at, part) in values.iter().enumerate() {
                if at > 0 {
                    value.push(":");
                }
                value.push(part);
            }
            if name == "PATH" && LISTS.contains(&name) {
                value.push(":");
                value.push(path);
            }
            (name, value)
        };
        tree::variables(&self.link).into_iter().map(joined).collect()
    }

    /// Changes a file: `edit(&installed.impl_file("square.py"), |text| text + "# new\n")`.
    ///
    /// # Errors
    /// The file is missing, or cannot be written.
    pub fn edit(&self, path: &Path, change: impl FnOnce(String) -> String) -> io::Result<()> {
        let text = disk::read(path)?;
        disk::replace(path, change(text))
    }

    /// Writes at the end of a file.
    ///
    /// # Errors
    /// The file is missing, or cannot be written.
    pub fn append(&self, path: &Path, text: &str) -> io::Result<()> {
        disk::append(path, text)
    }

    /// Removes what is at a path, if there is something.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn remove(&self, path: &Path) -> io::Result<()> {
        disk::remove(path)
    }

    /// Makes it another version, in place: the version files, and the compiler with its stamp. The link and the directory
    /// stay, as they do when a package is installed over another.
    ///
    /// # Errors
    /// The files cannot be written.
    pub fn upgrade(&mut self, inner_version: &str, timestamp: &str) -> io::Result<()> {
        inner_version.clone_into(&mut self.plan.inner_version);
        timestamp.clone_into(&mut self.plan.timestamp);
        tree::write_versions(&self.plan, &self.versioned)?;
        tree::write_compiler(&self.versioned.join(format!("{ARCH}-linux")), &self.plan.stamp())
    }

    /// Writes a package of custom operators as `folder`, which `ASCEND_CUSTOM_OPP_PATH` may name.
    ///
    /// # Errors
    /// The directory cannot be written to, or the package has an operator like one that is missing.
    pub fn write_vendor(&self, vendor: &Vendor, folder: &Path) -> io::Result<()> {
        vendor.write(folder, &self.plan.socs)
    }

    /// Writes what tuning found out about an operator, called after its file (`mat_mul`), into a knowledge bank: the
    /// built-in one, or the one in `folder`.
    ///
    /// # Errors
    /// The chip is not known, or the file cannot be written.
    pub fn write_bank(
        &self,
        folder: Option<&Path>,
        soc: &str,
        op: &str,
        knowledge: &Value,
    ) -> io::Result<PathBuf> {
        let cores = tree::soc(soc)?.cores;
        let built_in = self.path(&format!("opp/built-in/data/op/{soc}/unified_bank"));
        let folder = folder.unwrap_or(&built_in);
        let path = folder.join(format!("{soc}_{cores}_AiCore_{op}_runtime_kb.json"));
        disk::write(&path, format!("{knowledge}\n"))?;
        Ok(path)
    }

    /// From now on these things go wrong, and no others.
    ///
    /// # Errors
    /// The file cannot be written, or a rule is about a program.
    pub fn rules(&self, rules: &[Rule]) -> io::Result<()> {
        if let Some(rule) = rules.iter().find(|rule| rule.is_of_tool()) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("no program reads {rule:?}")));
        }
        disk::remove(&self.control("used"))?;
        disk::folder(&self.control("used"))?;
        self.set_rules(&rules.iter().enumerate().map(|(at, rule)| rule.to_json(&at.to_string())).collect())
    }

    /// From now on importing the toolkit and a compile take so long.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn set_times(&mut self, start_up: Duration, compile_time: Duration) -> io::Result<()> {
        (self.plan.start_up, self.plan.compile_time) = (start_up, compile_time);
        let found: Value = serde_json::from_str(&disk::read_links(&self.control("control"))?)?;
        self.set_rules(&found["rules"])
    }

    /// The compiles since [`forget`](Self::forget), in the order in which it was begun.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn compiles(&self) -> io::Result<Vec<Compile>> {
        Ok(control::compiles(&disk::read_if_there(&self.control("compiles.log"))?))
    }

    /// Empties the log of compiles.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn forget(&self) -> io::Result<()> {
        disk::remove(&self.control("compiles.log"))
    }

    /// The processes that [`Fault::Leave`](super::Fault::Leave) started.
    ///
    /// # Errors
    /// The list cannot be read.
    pub fn left(&self) -> io::Result<Vec<u32>> {
        let text = disk::read_if_there(&self.control("left.log"))?;
        Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
    }

    fn control(&self, name: &str) -> PathBuf {
        self.versioned.join("opkeep_standin").join(name)
    }

    fn set_rules(&self, rules: &Value) -> io::Result<()> {
        let text = json!({
            "start_up_ms": control::millis(self.plan.start_up),
            "compile_ms": control::millis(self.plan.compile_time),
            "rules": rules,
        });
        disk::replace_links(&self.control("control"), &text.to_string())
    }
}
