//! A toolkit for operator packages that is installed.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use super::super::control::{self, Compile, Rule};
use super::super::ops::OPS;
use super::super::paths::{self, ARCH};
use super::super::plan::Toolkit;
use super::super::tree::{self, LISTS, TBE};
use super::super::{disk, interpreter, op_info, python};
use super::log::{self, ToolRun};
use super::{files, tools};

/// A toolkit for operator packages that is installed, to be used and to be changed.
#[derive(Clone, Debug)]
pub struct PackageInstallation {
    plan: Toolkit,
    folder: PathBuf,
    versioned: PathBuf,
    link: PathBuf,
}

impl PackageInstallation {
    pub(super) fn write(plan: &Toolkit, folder: &Path) -> io::Result<Self> {
        let [versioned, link] = tree::places(plan).map(|place| folder.join(place));
        let own = Self { plan: plan.clone(), folder: folder.to_owned(), versioned, link };
        for name in ["used", "log"] {
            disk::folder(&own.control(name))?;
        }
        own.rules(&[])?;
        own.write_tree()?;
        Ok(own)
    }

    fn write_tree(&self) -> io::Result<()> {
        let (root, host) = (&self.versioned, self.versioned.join(format!("{ARCH}-linux")));
        tree::write_links(root)?;
        disk::link("../x86_64-linux/tikcpp".replace("x86_64", ARCH).as_str(), &root.join("compiler/tikcpp"))?;
        let target = root.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        disk::link(&target, &self.link)?;
        disk::write(&root.join("set_env.sh"), tree::set_env(&self.link))?;
        tree::write_versions(&self.plan, root)?;
        tools::write(&host.join("ccec_compiler/bin"), &self.plan.stamp())?;
        for (path, text) in files::COMPILER {
            disk::write(&host.join("ccec_compiler").join(path), text)?;
        }
        for (path, text) in files::HEADERS {
            disk::write(&host.join(path), text)?;
        }
        let version = format!("#pragma once\n#define ASC_DEVKIT_VERSION \"{}\"\n", self.plan.inner_version);
        disk::write(&root.join("include/version/asc_devkit_version.h"), version)?;
        for name in ["asc_opc", "opc"] {
            disk::write_program(&host.join("bin").join(name), files::ASC_OPC)?;
        }
        disk::write(&host.join("lib64/libascendalog.so"), "stands for libascendalog.so\n")?;
        let site = root.join("python/site-packages");
        let shared = python::FILES.iter().filter(|(path, _)| files::SHARED.contains(path));
        for (path, text) in shared.copied().chain(files::PYTHON) {
            disk::write(&site.join(path), text)?;
        }
        for soc in &self.plan.socs {
            disk::write(&paths::platform_config(root, soc.name), soc.ini())?;
            disk::write(&self.op_info(soc.short), op_info::file(OPS, soc))?;
        }
        Ok(())
    }

    /// The directory that it was installed to: what `/usr/local/Ascend` is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The root, by the link that stays when versions change: what `ASCEND_HOME_PATH` names.
    pub fn root(&self) -> &Path {
        &self.link
    }

    /// A file below the root: `python/site-packages/asc_opc_tool/opc.py`.
    pub fn path(&self, path: &str) -> PathBuf {
        self.link.join(path)
    }

    /// A file below `<arch>-linux`: `tikcpp/tikcfw/kernel_operator.h`.
    pub fn host_path(&self, path: &str) -> PathBuf {
        self.path(&format!("{ARCH}-linux")).join(path)
    }

    /// A program: `asc_opc`, `opc`, `bisheng`, `ccec`, `ld.lld`, `llvm-objdump`.
    pub fn tool(&self, name: &str) -> PathBuf {
        let folder = if name.contains("opc") { "bin" } else { "ccec_compiler/bin" };
        self.host_path(folder).join(name)
    }

    /// The operator information of a family of chips, by its short name in any case: `Ascend910B`.
    pub fn op_info(&self, short: &str) -> PathBuf {
        paths::op_info(&self.path(TBE), &short.to_lowercase())
    }

    /// The platform configuration of a chip.
    pub fn platform_config(&self, soc: &str) -> PathBuf {
        paths::platform_config(&self.link, soc)
    }

    /// The variables that `set_env.sh` sets. A list continues with the value of the process; `path` is that of `PATH`, before
    /// which a `python3` that starts quickly stands.
    pub fn environment(&self, path: &str) -> Vec<(&'static str, OsString)> {
        let python = interpreter::python();
        let python = python.as_deref().and_then(Path::parent);
        let joined = |(name, mut values): (&'static str, Vec<PathBuf>)| {
            if name == "PATH" && LISTS.contains(&name) {
                values.extend(python.map(Path::to_owned));
                values.push(path.into());
            }
            let values: Vec<OsString> = values.into_iter().map(PathBuf::into_os_string).collect();
            (name, values.join(std::ffi::OsStr::new(":")))
        };
        tree::variables(&self.link).into_iter().map(joined).collect()
    }

    /// Changes a file: `edit(&installed.host_path("tikcpp/tikcfw/kernel_tpl.h"), |text| text + "// new\n")`. Its date is at least a
    /// second later than before, so that no bytecode of the former text is taken for it.
    ///
    /// # Errors
    /// The file is missing, or cannot be written.
    pub fn edit(&self, path: &Path, change: impl FnOnce(String) -> String) -> io::Result<()> {
        disk::edit(path, change)
    }

    /// Makes it another version, in place: the version files, and the compiler with its stamp. The link and the directory
    /// stay, as they do when a package is installed over another.
    ///
    /// # Errors
    /// The files cannot be written.
    pub fn upgrade(&mut self, inner_version: &str, timestamp: &str) -> io::Result<()> {
        inner_version.clone_into(&mut self.plan.inner_version);
        timestamp.clone_into(&mut self.plan.timestamp);
        self.write_tree()
    }

    /// From now on these things go wrong, and no others.
    ///
    /// # Errors
    /// The file cannot be written, or a tool cannot do what a rule asks of it.
    pub fn rules(&self, rules: &[Rule]) -> io::Result<()> {
        let numbered = || rules.iter().enumerate().map(|(at, rule)| (at.to_string(), rule));
        let of_tools: String = numbered()
            .map(|(id, rule)| rule.to_line(&id))
            .collect::<io::Result<Vec<_>>>()?
            .into_iter()
            .flatten()
            .collect();
        let of_tasks =
            numbered().filter(|(_, rule)| !rule.is_of_tool()).map(|(id, rule)| rule.to_json(&id)).collect();
        disk::remove(&self.control("used"))?;
        disk::folder(&self.control("used"))?;
        self.set_rules(&of_tasks)?;
        disk::replace_links(&self.control("tools"), &of_tools)
    }

    /// From now on starting `asc_opc` and a task take so long.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn set_times(&mut self, start_up: Duration, compile_time: Duration) -> io::Result<()> {
        (self.plan.start_up, self.plan.compile_time) = (start_up, compile_time);
        let found: Value = serde_json::from_str(&disk::read_links(&self.control("control"))?)?;
        self.set_rules(&found["rules"])
    }

    /// The programs that were started since [`forget`](Self::forget), in the order in which they were.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn log(&self) -> io::Result<Vec<ToolRun>> {
        log::runs(&self.control("log"))
    }

    /// Those of one program.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn runs_of(&self, tool: &str) -> io::Result<Vec<ToolRun>> {
        Ok(self.log()?.into_iter().filter(|run| run.tool == tool).collect())
    }

    /// The compiles of kernels' code: runs of `bisheng` and `ccec` with `-c` for a tiling key, without those of the
    /// preprocessor and without trials.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn kernel_compiles(&self) -> io::Result<Vec<ToolRun>> {
        let is_kernel = |run: &ToolRun| {
            ["bisheng", "ccec"].contains(&run.tool.as_str())
                && run.has("-c")
                && run.args.iter().any(|argument| argument.starts_with("-Dauto_gen_"))
        };
        Ok(self.log()?.into_iter().filter(is_kernel).collect())
    }

    /// The tasks since [`forget`](Self::forget), each compile of one operator by `asc_opc`, in the order in which they began.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn compiles(&self) -> io::Result<Vec<Compile>> {
        Ok(control::compiles(&log::lines(&self.control("log"))?.join("\n")))
    }

    /// Empties the log. Programs that run meanwhile write on.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn forget(&self) -> io::Result<()> {
        let folder = self.control("log");
        disk::links(&folder)?.into_iter().try_for_each(|(name, _)| disk::remove(&folder.join(name)))
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
