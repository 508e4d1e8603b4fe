//! Chips, as `platform_config/<SoC name>.ini` describes them.

use std::fmt;
use std::path::{Path, PathBuf};

use opkeep_digest::Digest;
use opkeep_digest::FileDigests;
use opkeep_text::counted;

use crate::disk::files;
use crate::disk::tree;
use crate::error::ToolkitError;

/// A chip.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Soc {
    /// Its full name, as compilers take it: `Ascend910B1`.
    pub name: String,
    /// The name of its family, after which operator information is called: `Ascend910B`.
    pub short: String,
    /// The compiler's name of cube cores, or of undivided cores: `dav-c220-cube`.
    pub cube_arch: String,
    /// The same for vector cores: `dav-c220-vec`.
    pub vector_arch: String,
    /// How cube and vector cores go together: `split`, `fuse,split`; empty on chips where this is no question.
    pub combine: String,
    /// AI cores.
    pub ai_cores: u32,
    /// Cube cores, where they are apart.
    pub cube_cores: Option<u32>,
    /// Vector cores, where they are apart.
    pub vector_cores: Option<u32>,
}

impl Soc {
    /// Whether cube and vector cores are apart, so that a kernel is for one kind or a mix of both.
    pub fn is_split(&self) -> bool {
        self.combine.split(',').any(|word| word.trim() == "split")
    }

    /// The family in lower case, as directories are called after it: `ascend910b`.
    pub fn family(&self) -> String {
        self.short.to_lowercase()
    }

    fn parse(name: &str, path: &Path, text: &str) -> Result<Self, ToolkitError> {
        let value = |section: &str, key: &str| ini_value(text, section, key);
        let needed = |section: &str, key: &str| {
            let missing = || {
                ToolkitError::malformed(path, format!("section [{section}]"), format!("`{key}` has no value"))
            };
            value(section, key).ok_or_else(missing)
        };
        let count = |key: &str| {
            let parse = |text: &str| {
                text.parse::<u32>().map_err(|_| {
                    let problem = format!("`{key}` is `{text}`, expected a number of cores");
                    ToolkitError::malformed(path, "section [SoCInfo]", problem)
                })
            };
            value("SoCInfo", key).map(parse).transpose()
        };
        let short = needed("version", "Short_SoC_version")?;
        if !is_name(short) {
            let problem =
                format!("`Short_SoC_version` is `{short}`, expected letters, digits, `_`, `-` and `.`");
            return Err(ToolkitError::malformed(path, "section [version]", problem));
        }
        let cube_arch = value("version", "CCEC_CUBE_version")
            .map_or_else(|| needed("version", "CCEC_AIC_version"), Ok)?;
        let vector_arch =
            value("version", "CCEC_VECTOR_version").or_else(|| value("version", "CCEC_AIV_version"));
        needed("SoCInfo", "ai_core_cnt")?;
        Ok(Self {
            name: name.to_owned(),
            short: short.to_owned(),
            cube_arch: cube_arch.to_owned(),
            vector_arch: vector_arch.unwrap_or(cube_arch).to_owned(),
            combine: value("SoCInfo", "cube_vector_combine").unwrap_or_default().to_owned(),
            ai_cores: count("ai_core_cnt")?.unwrap_or_default(),
            cube_cores: count("cube_core_cnt")?,
            vector_cores: count("vector_core_cnt")?,
        })
    }
}

/// `Ascend910B1 (Ascend910B; 24 cube cores dav-c220-cube, 48 vector cores dav-c220-vec)`.
impl fmt::Display for Soc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}; ", self.name, self.short)?;
        match (self.cube_cores, self.vector_cores) {
            (Some(cube), Some(vector)) => {
                let (cube_arch, vector_arch) = (&self.cube_arch, &self.vector_arch);
                write!(f, "{cube} cube cores {cube_arch}, {vector} vector cores {vector_arch})")
            }
            _ => write!(f, "{} {})", counted(self.ai_cores, "core"), self.cube_arch),
        }
    }
}

/// The chips that a toolkit knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Platforms {
    dir: PathBuf,
    names: Vec<String>,
}

impl Platforms {
    /// Lists the chips of `dir`, without reading their files.
    pub(crate) fn list(dir: PathBuf) -> Result<Self, ToolkitError> {
        let files = tree::names(&dir)?.unwrap_or_default();
        let names = files.into_iter().filter_map(|(name, _)| {
            let name = name.into_string().ok()?;
            name.strip_suffix(".ini").filter(|name| is_name(name)).map(str::to_owned)
        });
        let names = names.collect();
        Ok(Self { dir, names })
    }

    /// The directory with a file for each chip.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The chips' full names, in order.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Reads about the chip that is called `name` in full.
    ///
    /// # Errors
    /// [`ToolkitError::UnknownSoc`], with the nearest names; a file that cannot be read, or lacks what is needed.
    pub fn soc(&self, name: &str) -> Result<Soc, ToolkitError> {
        if !self.names.iter().any(|known| known == name) {
            let nearest = nearest(name, &self.names);
            return Err(ToolkitError::UnknownSoc { asked: name.to_owned(), nearest, dir: self.dir.clone() });
        }
        let path = self.dir.join(format!("{name}.ini"));
        Soc::parse(name, &path, &files::read_text(&path)?)
    }

    /// The digest of all that is known of a chip.
    pub fn digest(&self, soc: &Soc, files: &dyn FileDigests) -> Result<Digest, ToolkitError> {
        let path = self.dir.join(format!("{}.ini", soc.name));
        files.digest(&path).map_err(|source| ToolkitError::io("read", &path, source))
    }

    /// The warning before a build for `soc` if its name is also that of another family of chips.
    /// `Ascend910B` is a chip of the first generation, and `Ascend910B1` one of the family `Ascend910B`: no kernel for
    /// one runs on the other.
    pub fn warning(&self, soc: &Soc) -> Option<String> {
        if soc.short == soc.name {
            return None;
        }
        let longer = self.names.iter().filter(|name| name.len() > soc.name.len());
        let alike = longer.filter(|name| name.starts_with(&soc.name));
        let family = |name: &&String| self.soc(name).is_ok_and(|other| other.short == soc.name);
        let others: Vec<String> = alike.filter(family).map(|name| format!("`{name}`")).collect();
        if others.is_empty() {
            return None;
        }
        let Soc { name, short, cube_arch, .. } = soc;
        Some(format!(
            "`{name}` is a chip of the family {short} ({cube_arch}), not one of the family that is called {name} too; if \
             that is meant, say {}",
            others.join(", ")
        ))
    }
}

/// Names become parts of paths.
fn is_name(name: &str) -> bool {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || "_-.".contains(letter);
    !name.is_empty() && !name.starts_with('.') && name.chars().all(fits)
}

/// The last value of `key` in `section`, if it is not empty. Keys count with their case.
fn ini_value<'a>(text: &'a str, section: &str, key: &str) -> Option<&'a str> {
    let mut here = false;
    let mut found = None;
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[') {
            here = name.strip_suffix(']').is_some_and(|name| name.trim() == section);
        } else if here
            && !line.starts_with(['#', ';'])
            && let Some((name, value)) = line.split_once('=')
            && name.trim() == key
        {
            found = Some(value.trim());
        }
    }
    found.filter(|value| !value.is_empty())
}

/// At most four of `names` that are like `asked`, the likest first.
fn nearest(asked: &str, names: &[String]) -> Vec<String> {
    let asked = asked.to_lowercase();
    let mut ranked: Vec<(usize, &String)> =
        names.iter().map(|name| (strsim::levenshtein(&asked, &name.to_lowercase()), name)).collect();
    opkeep_order::sort(&mut ranked);
    let near = ranked.into_iter().filter(|(distance, _)| *distance <= 2);
    near.take(4).map(|(_, name)| name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_belong_to_their_section() {
        let text = "[a]\nx=1\n# x=2\n[b]\nx = 3 \nX=4\nempty=\n[a]\nx=5\n";
        assert_eq!(ini_value(text, "a", "x"), Some("5"));
        assert_eq!(ini_value(text, "b", "x"), Some("3"));
        assert_eq!(ini_value(text, "b", "empty"), None);
        assert_eq!(ini_value(text, "c", "x"), None);
    }

    #[test]
    fn the_nearest_names_come_first() {
        let names = ["Ascend910B1", "Ascend910B2", "Ascend310", "AS31XM1X"].map(str::to_owned);
        assert_eq!(nearest("ascend910b1", &names), ["Ascend910B1", "Ascend910B2"]);
        assert_eq!(nearest("cpu", &names), [""; 0]);
    }

    #[test]
    fn the_error_of_an_incomplete_file_names_the_field_and_the_file() {
        let parse =
            |text: &str| Soc::parse("X1", Path::new("X1.ini"), text).map_err(|error| error.to_string());
        let good = "[version]\nShort_SoC_version=X\nCCEC_AIC_version=dav-x\n[SoCInfo]\nai_core_cnt=2\n";
        let soc = parse(good).unwrap();
        assert_eq!((soc.vector_arch.as_str(), soc.ai_cores, soc.is_split()), ("dav-x", 2, false));
        for (from, to, says) in [
            ("Short_SoC_version=X", "", "`Short_SoC_version` has no value"),
            ("Short_SoC_version=X", "Short_SoC_version=../X", "expected letters"),
            ("ai_core_cnt=2", "ai_core_cnt=two", "is `two`, expected a number"),
            ("ai_core_cnt=2", "", "section [SoCInfo]: `ai_core_cnt` has no value"),
            ("CCEC_AIC_version=dav-x", "", "`CCEC_AIC_version`"),
        ] {
            let error = parse(&good.replace(from, to)).unwrap_err();
            assert!(error.contains(says) && error.contains("X1.ini"), "{error}");
        }
    }
}
