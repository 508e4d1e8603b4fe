//! A `.o` and its `.json`.

use opkeep_digest::Digest;
use serde_json::{Map, Value};

use super::kernel::Kernel;
use super::{describe, object};

/// A kernel's object and its description, to be used as they are or after one change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The stem of both files' names, and `binFileName`.
    pub stem: String,
    /// `binFileSuffix`.
    pub suffix: &'static str,
    /// The `.json`.
    pub json: Vec<u8>,
    /// The `.o` or `.so`.
    pub object: Vec<u8>,
}

impl Pair {
    /// The names of the `.json` and of the object. Shared objects have `lib` before theirs.
    pub fn file_names(&self) -> [String; 2] {
        let prefix = if self.suffix == ".so" { "lib" } else { "" };
        [format!("{}.json", self.stem), format!("{prefix}{}{}", self.stem, self.suffix)]
    }

    /// The same with other fields in the `.json`.
    pub fn with_fields(self, change: impl FnOnce(&mut Map<String, Value>)) -> Self {
        let mut fields = serde_json::from_slice(&self.json).unwrap_or_default();
        change(&mut fields);
        Self { json: describe::sorted(&fields), ..self }
    }

    /// The same with `value` for `field`.
    pub fn with_field(self, field: &str, value: impl Into<Value>) -> Self {
        self.with_fields(|fields| {
            fields.insert(field.to_owned(), value.into());
        })
    }

    /// The same without `field`.
    pub fn without_field(self, field: &str) -> Self {
        self.with_fields(|fields| {
            fields.remove(field);
        })
    }

    /// The same with another object, and its digest in the `.json`.
    pub fn with_object(self, change: impl FnOnce(&mut Vec<u8>)) -> Self {
        let mut object = self.object.clone();
        change(&mut object);
        let digest = Digest::of(&object).to_string();
        Self { object, ..self.with_field("sha256", digest) }
    }
}

impl Kernel {
    /// The pair.
    pub fn build(&self) -> Pair {
        let object = object::write(self);
        let json = describe::json(self, &object);
        Pair { stem: self.file_name.clone(), suffix: ".o", json, object }
    }
}
