//! Packages of custom operators, in the order in which the vendor's tools ask them.

use std::path::{Path, PathBuf};

use opkeep_fs::Fs;

use crate::disk::files;
use crate::disk::tree;
use crate::error::ToolkitError;
use crate::version;

/// A package of custom operators.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Vendor {
    /// The name of its directory.
    pub name: String,
    /// The directory, with `op_impl` in it.
    pub dir: PathBuf,
    /// The origin of the path.
    pub named_by: &'static str,
    /// The compiler it was made with, if it says.
    pub version: Option<String>,
    /// The directory that its Python packages are imported from.
    pub tbe: PathBuf,
    /// Its Python packages with operators: `<name>_impl`.
    pub packages: Vec<String>,
}

impl Vendor {
    /// Whether its operators have to be named by their files: the compiler finds those of `vendors/` by their types,
    /// and of others no more than what they take.
    pub fn is_custom(&self) -> bool {
        self.named_by == CUSTOM_VARIABLE
    }
}

pub(crate) const CUSTOM_VARIABLE: &str = "ASCEND_CUSTOM_OPP_PATH";

/// Says which packages in the op package count, below it.
const INI: &str = "vendors/config.ini";

/// All packages: those that the variable lists, then those of `vendors/config.ini`. One that is listed and not there is
/// none for the vendor's tools, and a warning here.
pub(crate) fn find(
    custom: Option<&str>,
    opp: &Path,
    warnings: &mut Vec<String>,
) -> Result<Vec<Vendor>, ToolkitError> {
    let custom = custom.unwrap_or_default().split(':').map(str::trim).filter(|dir| !dir.is_empty());
    let mut listed: Vec<(PathBuf, &'static str)> =
        custom.map(|dir| (PathBuf::from(dir), CUSTOM_VARIABLE)).collect();
    let names = listed_in(opp)?;
    listed.extend(names.into_iter().map(|name| (opp.join("vendors").join(name), INI)));
    let mut vendors = Vec::new();
    for (dir, named_by) in listed {
        if Fs::new().is_dir(&dir) {
            vendors.push(Vendor::read(dir, named_by)?);
        } else {
            let dir = dir.display();
            warnings.push(format!("{named_by} names `{dir}`, and there is no such directory"));
        }
    }
    Ok(vendors)
}

/// The packages that `vendors/config.ini` names, in its order. None without such a file.
pub(crate) fn listed_in(opp: &Path) -> Result<Vec<String>, ToolkitError> {
    let ini = opp.join(INI);
    if Fs::new().is_file(&ini) { Ok(priorities(&files::read_text(&ini)?)) } else { Ok(Vec::new()) }
}

impl Vendor {
    fn read(dir: PathBuf, named_by: &'static str) -> Result<Self, ToolkitError> {
        let name = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let info = dir.join("version.info");
        let version = if Fs::new().is_file(&info) {
            let text = files::read_text(&info)?;
            version::value(&text, "custom_opp_compiler_version").or_else(|| version::value(&text, "Version"))
        } else {
            None
        };
        let tbe = dir.join("op_impl/ai_core/tbe");
        let below = tree::names(&tbe)?.unwrap_or_default();
        let packages = below.into_iter().filter(|(_, is_dir)| *is_dir);
        let packages = packages.filter_map(|(package, _)| package.into_string().ok());
        let packages = packages.filter(|package| package.ends_with("_impl") || *package == name).collect();
        Ok(Self { name, dir, named_by, version, tbe, packages })
    }
}

/// The names of `load_priority=a,b`; the last such line counts.
fn priorities(text: &str) -> Vec<String> {
    let mut lines = text.lines().filter_map(|line| line.split_once('='));
    let last = lines.rfind(|(key, _)| key.trim() == "load_priority");
    let names = last.map(|(_, names)| names).unwrap_or_default().split(',').map(str::trim);
    names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_priority_counts() {
        assert_eq!(priorities("load_priority=a\n# x\nload_priority = b , c,,\n"), ["b", "c"]);
        assert_eq!(priorities("other=a\n"), [""; 0]);
    }
}
