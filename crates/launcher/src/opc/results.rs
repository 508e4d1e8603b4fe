//! Whether a compile produced the kernels that its caller expects.
//!
//! The exit status does not say so: `opc` of CANN 8.1 ends with 0 when a compile fails, and with several operators in a
//! parameter file a success hides an earlier failure. So the files decide.

use std::collections::BTreeMap;

use opkeep_artifact::Artifact;
use opkeep_cann_meta::{KernelMeta, known_target};
use opkeep_digest::Digest;
use opkeep_validator::Validator;

use super::parameters::Parameters;

/// The files that a compile wrote, by their names in its output directory.
pub(crate) type Files<'a> = BTreeMap<&'a str, &'a [u8]>;

/// The kernels of one compile.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected<'a> {
    pub(crate) parameters: &'a Parameters,
    /// The value of `--soc_version`.
    pub(crate) chip: &'a str,
    /// Whether the object is an input of a later link: then no rule for loadable objects applies.
    pub(crate) is_relocatable: bool,
}

impl Expected<'_> {
    /// Checks that each kernel has both of its files, that each `.json` describes the object that it names, and that the
    /// pair is valid for its chip.
    ///
    /// # Errors
    /// The reason why the files are not kept.
    pub(crate) fn check(&self, files: &Files<'_>) -> Result<(), String> {
        for name in self.parameters.kernel_names() {
            let parts = [format!("{name}.json"), format!("{name}.o")];
            if let Some(missing) = parts.iter().find(|part| !files.contains_key(part.as_str())) {
                return Err(format!("it wrote no `{missing}`"));
            }
        }
        let mut described = Vec::new();
        for (name, bytes) in files.iter().filter(|(name, _)| name.ends_with(".json")) {
            let meta = KernelMeta::parse(bytes).map_err(|error| format!("`{name}`: {error}"))?;
            // A `.json` that lists others has no object of its own.
            if meta.json_list.as_ref().is_none_or(Vec::is_empty) {
                described.push(self.check_pair(name, bytes, &meta, files)?);
            }
        }
        let objects = || files.keys().filter(|name| name.ends_with(".o"));
        if let Some(object) = objects().find(|name| !described.iter().any(|known| known == **name)) {
            return Err(format!("no `.json` describes `{object}`"));
        }
        match objects().count() < self.parameters.kernels() {
            true => Err(format!(
                "it wrote {} for {} of the parameter file",
                opkeep_text::counted(objects().count(), "object"),
                opkeep_text::counted(self.parameters.kernels(), "kernel"),
            )),
            false => Ok(()),
        }
    }

    /// Checks one `.json` and its object, and returns the name of that.
    fn check_pair(
        &self,
        name: &str,
        json: &[u8],
        meta: &KernelMeta,
        files: &Files<'_>,
    ) -> Result<String, String> {
        let stem = meta.bin_file_name.as_deref().unwrap_or_default();
        let object_name = format!("{stem}{}", meta.bin_file_suffix.as_deref().unwrap_or(".o"));
        let Some(object) = files.get(object_name.as_str()) else {
            return Err(format!("`{name}` names `{object_name}`, which it did not write"));
        };
        let digest = Digest::of(object).to_string();
        match &meta.sha256 {
            Some(stated) if stated.eq_ignore_ascii_case(&digest) => {}
            stated => {
                let stated = stated.as_deref().unwrap_or("none");
                return Err(format!(
                    "`{name}` states the SHA-256 {stated}, and `{object_name}` has {digest}"
                ));
            }
        }
        let Some(rules) = known_target(self.chip).filter(|_| !self.is_relocatable) else {
            return Ok(object_name);
        };
        let artifact = Artifact { metadata: json.to_vec(), object: object.to_vec(), extra: Vec::new() };
        let report = Validator::builtin().validate(&artifact, &rules);
        match report.errors().next() {
            Some(error) => Err(format!("`{object_name}`: {error}")),
            None => Ok(object_name),
        }
    }
}
