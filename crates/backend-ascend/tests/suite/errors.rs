//! Errors of the toolkit as errors of the backend.

use crate::common::{Place, SOC, job, search_below};
use opkeep_backend::{Backend, Support, Unsupported};
use opkeep_backend_ascend::{AscendBackend, AscendConfig};
use opkeep_descriptor::ResolvedSpec;

#[test]
fn a_missing_toolkit_is_an_unusable_toolchain_with_help() {
    let dir = tempfile::tempdir().unwrap();
    let config = AscendConfig::new(search_below(dir.path()));
    let error = AscendBackend::entry(config).open(SOC).err().unwrap().to_string();
    assert!(error.starts_with("no usable toolchain: no CANN toolkit is found"), "{error}");
    assert!(error.contains("ASCEND_HOME_PATH"), "{error}");
}

#[test]
fn an_operator_without_implementation_is_unsupported() {
    let place = Place::new();
    let backend = AscendBackend::open(&AscendConfig::new(place.search()), SOC).unwrap();
    let spec = ResolvedSpec { target: SOC.to_owned(), ..ResolvedSpec::default() };
    match backend.supports(&job("NoSuchOp"), &spec) {
        Support::No(Unsupported::Other { op_type, problem, .. }) => {
            assert_eq!(op_type, "NoSuchOp");
            assert!(
                problem.contains("no_such_op.py") && problem.contains("ASCEND_CUSTOM_OPP_PATH"),
                "{problem}"
            );
        }
        other => panic!("{other:?}"),
    }
}
