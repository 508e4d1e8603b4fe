//! The sizes of dimensions that the user gives. A name that no input has is an error.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::bail;
use opkeep_onnx::{ModelError, Network, OnnxError};

use crate::ui::nearest::nearest_name;

/// The sizes given with `--dim`, and the use of their names so far.
pub(crate) struct Dims {
    sizes: BTreeMap<String, i64>,
    /// Names of which no input with such a dimension was found.
    unknown: Vec<String>,
    /// Names of dimensions without a size in the inputs.
    known: BTreeSet<String>,
    /// Whether the dimensions of some network are not known.
    has_unread_network: bool,
}

impl Dims {
    /// Reads the sizes on the command line.
    ///
    /// # Errors
    /// A name has two sizes.
    pub(crate) fn of(dims: &[(String, i64)]) -> anyhow::Result<Self> {
        let mut sizes = BTreeMap::new();
        for (name, size) in dims {
            if let Some(other) = sizes.insert(name.clone(), *size).filter(|other| other != size) {
                bail!("--dim: `{name}` has two sizes, {other} and {size}; give it one");
            }
        }
        let unknown = sizes.keys().cloned().collect();
        Ok(Self { sizes, unknown, known: BTreeSet::new(), has_unread_network: false })
    }

    /// Reads the network at `path` with the sizes for its dimensions. The other sizes may be for another network.
    pub(crate) fn read(&mut self, path: &Path) -> Result<Network, OnnxError> {
        let sizes = self.sizes.iter().map(|(name, size)| (name.clone(), *size));
        let mut options = opkeep_onnx::Options::new(opkeep_order::map(sizes));
        let read = loop {
            match opkeep_onnx::read(path, &options) {
                Err(OnnxError::Model(ModelError::NoSuchDim { name, known })) => {
                    options.dims.remove(&name);
                    self.known.extend(known);
                }
                read => break read,
            }
        };
        match &read {
            Ok(_) | Err(OnnxError::Model(ModelError::Dims { .. })) => {
                self.unknown.retain(|name| !options.dims.contains_key(name));
            }
            Err(_) => self.has_unread_network = true,
        }
        read
    }

    /// # Errors
    /// No input has a dimension of a given name.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        // A network that cannot be read is reported on its own, and may have the unknown names.
        if self.unknown.is_empty() || self.has_unread_network {
            return Ok(());
        }
        let known: Vec<&str> = self.known.iter().map(String::as_str).collect();
        let quoted =
            |names: &[&str]| names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        let unknown: Vec<&str> = self.unknown.iter().map(String::as_str).collect();
        let (dimensions, are) = match unknown.len() {
            1 => ("dimension", "is not one"),
            _ => ("dimensions", "are none"),
        };
        let mut text = format!("--dim: {dimensions} {} {are} that a model leaves open", quoted(&unknown));
        if known.is_empty() {
            text.push_str("; the models leave none open, and descriptors (.info) have none at all");
        } else {
            text.push_str(&format!("; the models leave open {}", quoted(&known)));
        }
        let nearest: BTreeSet<&str> =
            opkeep_order::set(unknown.iter().filter_map(|name| nearest_name(name, &known)));
        if !nearest.is_empty() {
            let nearest: Vec<&str> = nearest.into_iter().collect();
            text.push_str(&format!("; did you mean {}?", quoted(&nearest)));
        }
        bail!("{text}")
    }
}
