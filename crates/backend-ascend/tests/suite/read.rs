//! The meaning of a kernel's options, with a toolkit and without one.

#![expect(clippy::unwrap_used, reason = "tests")]

use crate::common::{Place, SOC};
use opkeep_backend::Backend;
use opkeep_backend_ascend::{AscendBackend, AscendConfig, Driver};
use opkeep_descriptor::{BuildSpec, read_info};
use opkeep_testkit::TestContext;
use serde_json::{Value, json};

const SQUARE: &[u8] = include_bytes!("../../../../fixtures/mindspore/square_12484080525657478220_2.info");

fn spec(options: Value) -> BuildSpec {
    let mut spec = BuildSpec::new(SOC);
    let options = options.as_object().unwrap().iter();
    spec.options = options.map(|(name, value)| (name.clone(), value.clone())).collect();
    spec
}

/// Otherwise no build would find an imported kernel, or the wrong one would.
#[test]
fn both_ways_are_the_same() {
    let place = Place::new();
    let mut config = AscendConfig::new(place.search());
    config.driver = Driver::Process;
    let backend = AscendBackend::open(&config, SOC).unwrap();
    let framework = read_info(SQUARE).unwrap().spec.retarget(SOC);
    for spec in [
        framework,
        spec(json!({})),
        spec(json!({"op_impl_mode": "high_precision", "coreNum": "8", "te_version": "1.84"})),
        spec(json!({"deterministic": true, "op_debug_config": "oom"})),
        spec(json!({"op_debug_level": "1", "something_new": 7})),
    ] {
        assert_eq!(
            AscendBackend::resolve_without_toolkit(&spec).unwrap(),
            backend.resolve(&TestContext::new().cx(), &spec).unwrap(),
            "{spec:?}"
        );
    }
    for wrong in [json!({"autoTilingMode": "RL"}), json!({"op_debug_level": "9"})] {
        let spec = spec(wrong);
        let texts =
            [AscendBackend::resolve_without_toolkit(&spec), backend.resolve(&TestContext::new().cx(), &spec)]
                .map(|read| read.unwrap_err().to_string());
        assert_eq!(texts[0], texts[1]);
    }
}

/// The content of a directory at the time of a compile is unknown.
#[test]
fn a_kernel_of_a_knowledge_bank_is_refused() {
    let spec = spec(json!({"op_bank_path": "/tmp"}));
    let error = AscendBackend::resolve_without_toolkit(&spec).unwrap_err().to_string();
    assert!(error.contains("op_bank_path") && error.contains("is unknown"), "{error}");
}
