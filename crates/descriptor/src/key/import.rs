//! Keys of imported kernels: kernels that a framework had compiled.
//!
//! Toolchain and sources of such a kernel are unknown, except what its descriptor states. So its key depends on the job
//! and the options in the descriptor, without names, device and directories, and has its own hash domain, which keys of
//! compiled kernels never share.

use std::collections::BTreeMap;
use std::path::Path;

use opkeep_digest::{Digest, Hasher};

use crate::key::parts::Key;
use crate::model::job::Job;
use crate::model::spec::ResolvedSpec;

/// The version of the algorithm of [`import_key`].
pub const IMPORT_SCHEMA: u64 = 1;

/// Options that do not affect the code: they state the toolchain that compiled the framework's kernels.
const STATEMENTS: [&str; 1] = ["te_version"];

/// The key of an imported kernel of the job with the digest `job`, for `spec`. Kernels of jobs with their own source
/// ([`Job::custom_op_source`]) are not imported, since the digest does not cover the source.
///
/// The toolchain in a descriptor ([`ResolvedSpec::split_unkeyed_options`]) does not count, since most descriptors state
/// none. A caller that reuses the kernel compares it where both sides state one.
pub fn import_key(job: &Digest, spec: &ResolvedSpec) -> Key {
    let mut spec = spec.clone();
    spec.split_unkeyed_options();
    let mut hasher = Hasher::new("opkeep import key");
    hasher.u64(IMPORT_SCHEMA);
    hasher.digest(job);
    hasher.digest(&spec.digest());
    Key::from(hasher.finish())
}

/// The suffixes of the directory of the toolkit's own operators, in older and in newer toolkits.
const BUILT_IN: [&str; 2] = ["op_impl/built-in/ai_core/tbe", "built-in/op_impl/ai_core/tbe"];

impl Job {
    /// The first source in the job that does not belong to the toolkit: a custom operator.
    ///
    /// Such a job has no [`import_key`]: the contents of the source are unknown, and without them the job may be that
    /// of another operator of the same name.
    pub fn custom_op_source(&self) -> Option<&str> {
        let named = self.ops.iter().filter_map(|op| op.module_path.as_deref());
        named
            .filter(|path| !path.is_empty())
            .find(|path| !BUILT_IN.iter().any(|end| Path::new(path).ends_with(end)))
    }
}

impl ResolvedSpec {
    /// Removes the entries that state the framework's toolchain and are no options.
    pub fn split_unkeyed_options(&mut self) -> BTreeMap<String, String> {
        let taken = STATEMENTS.iter().filter_map(|name| self.options.remove_entry(*name));
        opkeep_order::map(taken)
    }
}

#[cfg(test)]
mod tests {
    use opkeep_digest::Fingerprint;

    use super::*;
    use crate::{KeyParts, read_info};

    const SQUARE: &[u8] = include_bytes!("../../../../fixtures/mindspore/square_12484080525657478220_2.info");

    fn spec(options: &[(&str, &str)]) -> ResolvedSpec {
        let options = options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        ResolvedSpec { target: "Ascend910A".to_owned(), options: options.collect(), debug: false }
    }

    /// It changes only with the schema, the domain or the digest of a job.
    #[test]
    fn an_import_key_does_not_change() {
        let job = read_info(SQUARE).unwrap().job.digest();
        let golden = "3282eee7f9dce9b550fa308865f885ee915d592120279cbc32a0ce811c5921db";
        assert_eq!(import_key(&job, &spec(&[])).to_string(), golden);
    }

    /// The same items in the domain of compiled kernels give another key.
    #[test]
    fn the_domain_is_its_own() {
        let job = read_info(SQUARE).unwrap().job;
        let (digest, spec) = (job.digest(), spec(&[]));
        let mut ours = Hasher::new("opkeep key");
        ours.u64(IMPORT_SCHEMA);
        ours.digest(&digest);
        ours.digest(&spec.digest());
        let imported = import_key(&digest, &spec);
        assert_ne!(imported, Key::from(ours.finish()));
        for backend in ["", "ascend", "opkeep import key"] {
            let compiled = KeyParts::new(backend, &job, &spec, Fingerprint::new(), Fingerprint::new()).key();
            assert_ne!(imported, compiled);
        }
    }

    #[test]
    fn a_source_is_its_own_unless_it_is_the_toolkits() {
        let mut job = read_info(SQUARE).unwrap().job;
        assert_eq!(job.custom_op_source(), None);
        let op = job.ops.len() - 1;
        let mut own = |path: Option<&str>| {
            job.ops[op].module_path = path.map(str::to_owned);
            job.custom_op_source().map(str::to_owned)
        };
        for built_in in [
            None,
            Some(""),
            Some("/a/opp/op_impl/built-in/ai_core/tbe/"),
            Some("/a/opp/built-in/op_impl/ai_core/tbe"),
        ] {
            assert_eq!(own(built_in), None, "{built_in:?}");
        }
        for path in [
            "/a/square.py",
            "square.py",
            "/a/op_impl/custom/ai_core/tbe",
            "/a/op_impl/built-in/ai_core/tbe/impl/square.py",
            "/a/not-built-in/op_impl/ai_core/tbe",
        ] {
            assert_eq!(own(Some(path)).as_deref(), Some(path));
        }
    }

    #[test]
    fn job_target_and_options_count_and_statements_do_not() {
        let job = read_info(SQUARE).unwrap().job.digest();
        let plain = import_key(&job, &spec(&[]));
        assert_ne!(plain, import_key(&Digest::of(b"another job"), &spec(&[])));
        assert_ne!(plain, import_key(&job, &spec(&[("impl_mode", "high_precision")])));
        assert_ne!(plain, import_key(&job, &ResolvedSpec { target: "Ascend910B1".into(), ..spec(&[]) }));
        let mut stated = spec(&[("te_version", "1.84")]);
        assert_eq!(plain, import_key(&job, &stated));
        assert_eq!(stated.split_unkeyed_options(), BTreeMap::from([("te_version".into(), "1.84".into())]));
        assert_eq!(stated, spec(&[]));
    }
}
