//! Packages of custom operators.

use std::io;
use std::path::Path;

use super::op_info;
use super::ops::{self, Op, Source};
use super::platform::Soc;
use super::port::default_name;
use super::{disk, module, paths};

/// A package of custom operators, as `msopgen` makes them.
#[derive(Clone, Debug)]
pub struct Vendor {
    name: String,
    ops: Vec<(String, String)>,
    version: String,
}

impl Vendor {
    /// A package without operators.
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), ops: Vec::new(), version: "9.1.0".to_owned() }
    }

    /// With the operator `op_type`, which computes what the built-in `like` does. A built-in type may be taken too.
    pub fn op(mut self, op_type: &str, like: &str) -> Self {
        self.ops.push((op_type.to_owned(), like.to_owned()));
        self
    }

    /// Made by this version of the compiler.
    pub fn version(self, version: &str) -> Self {
        Self { version: version.to_owned(), ..self }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Writes it as `folder`: what `vendors/<name>` is, and what `ASCEND_CUSTOM_OPP_PATH` names.
    pub(super) fn write(&self, folder: &Path, socs: &[&'static Soc]) -> io::Result<()> {
        let tbe = folder.join("op_impl/ai_core/tbe");
        let package = tbe.join(format!("{}_impl", self.name));
        let rows = self.rows()?;
        for soc in socs {
            let short = soc.short.to_lowercase();
            let path = paths::op_info(&tbe, &short);
            disk::write(&path, op_info::file(&rows, soc))?;
        }
        for (part, dynamic) in [("", false), ("dynamic", true)] {
            disk::write(&package.join(part).join("__init__.py"), "")?;
            for op in &rows {
                let text = module::text(op, dynamic);
                let text = text.replace("from .", "from impl.dynamic.");
                disk::write(&package.join(part).join(format!("{}.py", default_name(op.op_type))), text)?;
            }
        }
        disk::write(&folder.join("version.info"), format!("custom_opp_compiler_version={}\n", self.version))?;
        let set_env =
            "export ASCEND_CUSTOM_OPP_PATH=$(cd \"$(dirname \"$0\")/..\" && pwd):$ASCEND_CUSTOM_OPP_PATH\n";
        disk::write(&folder.join("bin/set_env.bash"), set_env)?;
        disk::folder(&folder.join("op_proto"))?;
        disk::folder(&folder.join("op_api"))
    }

    /// The operators with names of their own. Types live as long as the process: tests make a few.
    fn rows(&self) -> io::Result<Vec<Op>> {
        let row = |(op_type, like): &(String, String)| {
            let missing =
                || io::Error::new(io::ErrorKind::InvalidInput, format!("there is no operator `{like}`"));
            let op = ops::find(like).ok_or_else(missing)?;
            if matches!(op.source, Source::AscendC | Source::Mix(..) | Source::Null) {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    format!("`{like}` is not in Python"),
                ));
            }
            Ok(Op { op_type: op_type.clone().leak(), file: None, ..*op })
        };
        self.ops.iter().map(row).collect()
    }
}
