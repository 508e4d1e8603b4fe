//! Validation with the official schema of CycloneDX, which a Python package has.

use std::path::Path;

use crate::disk;
use crate::venv::{Skip, Venv, output, text};

/// Prints the errors of the file that it is given, with the strict schema.
const PROGRAM: &str = "\
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
for path in sys.argv[1:]:
    with open(path, encoding='utf-8') as file:
        error = JsonStrictValidator(SchemaVersion.V1_6).validate_str(file.read())
    if error is not None:
        sys.exit(f'{path}: {error}')
";

/// The package with the schema.
const REQUIREMENT: &str = "cyclonedx-python-lib[json-validation]>=11,<12";

/// Validates a bill of materials. `scratch` is a directory for its file.
pub(in crate::dist) fn validate(bill: &str, scratch: &Path) -> Result<(), Skip> {
    let venv = Venv::create(Path::new("target/venv-cyclonedx"))?;
    venv.install("cyclonedx", &[REQUIREMENT])?;
    let path = scratch.join("sbom.cdx.json");
    disk::write_bytes(&path, bill.as_bytes())?;
    let mut python = std::process::Command::new(venv.python());
    let printed = output(python.args(["-c", PROGRAM]).arg(&path))?;
    match printed.status.success() {
        true => Ok(()),
        false => {
            Err(Skip::Failed(format!("the bill of materials is not valid: {}", text(&printed.stderr).trim())))
        }
    }
}
