//! The plan of a project.

use std::io;
use std::path::{Path, PathBuf};

use super::super::operators::{self, OPERATORS, Operator, Row};

/// The build system of a project.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    /// vllm-ascend, ops-transformer: a generated script for each task, which calls `opc`; all run in one directory, and leave a stamp that
    /// depends on nothing.
    Vllm,
    /// ops-nn, ops-math, ops-cv: a line of `opc_cmd.sh` for each task, with a time limit and a log; all run again in each build, in one
    /// directory of the source tree.
    Nn,
    /// What `msopgen` writes: a generated script for each task, each in a directory of its own.
    Msopgen,
}

/// An operator project that is to be written.
#[derive(Clone, Debug)]
pub struct Project {
    pub(super) system: System,
    pub(super) operators: Vec<Operator>,
    pub(super) tasks: usize,
    pub(super) units: Vec<String>,
    pub(super) options: Vec<String>,
    pub(super) tiling_keys: String,
    pub(super) debug_config: String,
    pub(super) ccache: Option<PathBuf>,
    pub(super) ninja: bool,
    pub(super) relocatable: bool,
    pub(super) path: Vec<PathBuf>,
    pub(super) environment: Vec<(String, String)>,
}

impl Project {
    fn new(system: System) -> Self {
        Self {
            system,
            operators: OPERATORS.to_vec(),
            tasks: OPERATORS.len(),
            units: vec!["ascend910b".to_owned()],
            options: Vec::new(),
            tiling_keys: String::new(),
            debug_config: String::new(),
            ccache: None,
            ninja: false,
            relocatable: false,
            path: Vec::new(),
            environment: Vec::new(),
        }
    }

    /// A project built as vllm-ascend is.
    pub fn vllm() -> Self {
        Self::new(System::Vllm)
    }

    /// A project built as ops-nn is.
    pub fn nn() -> Self {
        Self::new(System::Nn)
    }

    /// A project that `msopgen` made.
    pub fn msopgen() -> Self {
        Self::new(System::Msopgen)
    }

    /// Built by Ninja, which only vllm-ascend's build can be.
    pub fn ninja(self) -> Self {
        Self { ninja: true, ..self }
    }

    /// With a second task for each row, which makes a part of super kernels: `<kernel>_relocatable`. Not in ops-nn's build.
    pub fn relocatable(self) -> Self {
        Self { relocatable: true, ..self }
    }

    /// The number of scripts for so many rows.
    pub(super) fn scripts(&self, rows: usize) -> usize {
        if self.relocatable { rows * 2 } else { rows }
    }

    /// With so many tasks for each unit: rows of element types and formats over the operators in turn. At most 49 for each operator.
    pub fn tasks(self, tasks: usize) -> Self {
        Self { tasks, ..self }
    }

    /// With these operators only, by type.
    ///
    /// # Errors
    /// A type that is not in [`OPERATORS`].
    pub fn operators(self, types: &[&str]) -> io::Result<Self> {
        let find = |op_type: &&str| {
            let unknown =
                || io::Error::new(io::ErrorKind::InvalidInput, format!("there is no operator `{op_type}`"));
            OPERATORS.into_iter().find(|operator| operator.op_type == *op_type).ok_or_else(unknown)
        };
        let operators = types.iter().map(find).collect::<io::Result<Vec<_>>>()?;
        Ok(Self { tasks: operators.len(), operators, ..self })
    }

    /// For these families of chips: `ascend910b`, `ascend910_93`, `ascend310p`.
    pub fn units(self, units: &[&str]) -> Self {
        Self { units: units.iter().map(|unit| (*unit).to_owned()).collect(), ..self }
    }

    /// With a further compile option in the generated Python of all operators.
    pub fn option(mut self, option: &str) -> Self {
        self.options.push(option.to_owned());
        self
    }

    /// For these tiling keys only: `1,264`.
    pub fn tiling_keys(self, keys: &str) -> Self {
        Self { tiling_keys: keys.to_owned(), ..self }
    }

    /// With these words for `--op_debug_config`, whose order is left to chance: `ccec_g,oom`.
    pub fn debug_config(self, words: &str) -> Self {
        Self { debug_config: words.to_owned(), ..self }
    }

    /// With a ccache, as the system takes one: a script called `bisheng` before the compiler in vllm-ascend's,
    /// `ASCENDC_CCACHE_EXECUTABLE` in the others.
    pub fn ccache(self, program: &Path) -> Self {
        Self { ccache: Some(program.to_owned()), ..self }
    }

    /// With a directory on `PATH` whose programs go before the toolkit's, and before those of directories named later.
    pub fn path(mut self, folder: &Path) -> Self {
        self.path.push(folder.to_owned());
        self
    }

    /// With a further variable in the environment of the build.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The rows of each operator, which together are the tasks of a unit.
    pub(super) fn rows(&self) -> io::Result<Vec<(Operator, Vec<Row>)>> {
        let all: Vec<Row> = operators::rows().collect();
        let count = self.operators.len().max(1);
        let of = |(at, operator): (usize, &Operator)| {
            let rows = self.tasks / count + usize::from(at < self.tasks % count);
            let few =
                || io::Error::new(io::ErrorKind::InvalidInput, format!("{} tasks are too many", self.tasks));
            Ok((*operator, all.get(..rows).ok_or_else(few)?.to_vec()))
        };
        let rows: io::Result<Vec<_>> = self.operators.iter().enumerate().map(of).collect();
        Ok(rows?.into_iter().filter(|(_, rows)| !rows.is_empty()).collect())
    }
}
