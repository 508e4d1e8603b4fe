//! Properties of any input.

use opkeep_descriptor::{
    Descriptor, Diff, Envelope, ForeignName, Generation, KernelName, OpLabels, TensorLabel, fuzz, read_info,
    write_info,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::tree::{COMPOSITE, EXAMPLE, FUSED, OLDER, OLDEST, RICH, parse, paths, read, with, without};

/// JSON with the keys of each object in an order that `seed` chooses.
fn shuffled(value: &Value, seed: &mut u64) -> String {
    match value {
        Value::Object(map) => {
            let mut members: Vec<String> = map
                .iter()
                .map(|(name, value)| format!("{}:{}", Value::from(name.as_str()), shuffled(value, seed)))
                .collect();
            for last in (1..members.len()).rev() {
                *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                members.swap(last, (*seed >> 33) as usize % (last + 1));
            }
            format!("{{{}}}", members.join(","))
        }
        Value::Array(items) => {
            format!("[{}]", items.iter().map(|item| shuffled(item, seed)).collect::<Vec<_>>().join(","))
        }
        other => other.to_string(),
    }
}

/// Any JSON, small, with the words that matter here.
fn any_json() -> impl Strategy<Value = Value> {
    let number = prop_oneof![
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        proptest::sample::select(vec!["1e-05", "1e999", "-0.0", "18446744073709551616", "-1", "0", "1.50"])
            .prop_map(parse),
    ];
    let text = proptest::sample::select(vec![
        "",
        "NULL",
        "inf",
        "-inf",
        "Data",
        "float32",
        "x_0",
        "y",
        "name",
        "required",
        "Default/a",
        "(shared names)",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        number,
        text.prop_map(Value::from)
    ];
    let name =
        proptest::sample::select(vec!["name", "shape", "dtype", "data_type", "value", "type", "attrs", "z"]);
    leaf.prop_recursive(3, 12, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((name.clone(), inner), 0..4)
                .prop_map(|members| members.into_iter().collect::<Value>()),
        ]
    })
}

/// A written descriptor is read as the same descriptor, and without its envelope as the same job.
fn comes_back(descriptor: &Descriptor) -> Result<(), TestCaseError> {
    let again = read_info(write_info(descriptor).as_bytes());
    prop_assert_eq!(again.as_ref(), Ok(descriptor));
    let bare = Descriptor { envelope: Envelope::default(), ..descriptor.clone() };
    let again = read_info(write_info(&bare).as_bytes());
    let again = again.map_err(|error| TestCaseError::fail(error.to_string()))?;
    prop_assert_eq!(again.spec, descriptor.spec.clone());
    prop_assert_eq!(again.job.digest(), descriptor.job.digest());
    Ok(())
}

#[derive(Clone, Copy)]
struct Document(&'static str);

/// Failures name the document, and do not print it.
impl std::fmt::Debug for Document {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.0 {
            EXAMPLE => "EXAMPLE",
            RICH => "RICH",
            FUSED => "FUSED",
            OLDER => "OLDER",
            OLDEST => "OLDEST",
            _ => "COMPOSITE",
        })
    }
}

fn document() -> impl Strategy<Value = Document> {
    proptest::sample::select([EXAMPLE, RICH, FUSED, OLDER, OLDEST, COMPOSITE].map(Document).to_vec())
}

/// Those whose layout is that of r1.5 and later.
fn newer_document() -> impl Strategy<Value = Document> {
    proptest::sample::select([EXAMPLE, RICH, FUSED].map(Document).to_vec())
}

/// Two jobs have a difference if and only if their digests differ.
fn differ_by_digest(old: &Descriptor, new: &Descriptor) -> Result<(), TestCaseError> {
    let diff = Diff::of_jobs(&old.job, &new.job);
    prop_assert_eq!(diff.is_empty(), old.job.digest() == new.job.digest(), "{}", diff);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_order_of_keys_changes_nothing(Document(text) in document(), seed in any::<u64>()) {
        let shuffled = shuffled(&parse(text), &mut { seed });
        prop_assert_eq!(read(&shuffled), read(text));
    }

    #[test]
    fn envelopes_change_no_key(Document(text) in document(), names in prop::collection::vec(".*", 12), id in any::<i64>()) {
        let before = read(text);
        let mut after = before.clone();
        let labels = |name: &String| OpLabels {
            name: name.clone(),
            outputs: vec![TensorLabel { name: Some(name.clone()), ..TensorLabel::default() }],
            ..OpLabels::default()
        };
        after.envelope = Envelope {
            generation: None,
            job_type: names[0].clone(),
            job_id: Some(id),
            source_id: Some(id),
            full_name: names[1].clone(),
            fusion_op_name: names[2].clone(),
            graph_name: names[3].clone(),
            scope_id: Some(id),
            soc_info: [(names[4].clone(), json!(names[5]))].into(),
            data: names[6..8].iter().map(labels).collect(),
            data_places: vec![2, 3],
            ops: names[8..].iter().map(labels).collect(),
            ignored: [(names[10].clone(), json!(id))].into(),
            left_out: ["full_name"].into(),
        };
        prop_assert_eq!(after.job.digest(), before.job.digest());
        for op in &mut after.job.ops {
            op.module_path = Some(names[9].clone());
        }
        prop_assert_eq!(after.job.digest(), before.job.digest());
    }

    /// The same in files of r1.2 and of AKG.
    #[test]
    fn the_request_changes_no_older_key(name in ".*", id in any::<i64>()) {
        let of_r1_2 = [
            ("/impl_path", json!(name)),
            ("/op_info/dynamic_index", json!(id)),
            ("/op_info/full_name", json!(name)),
            ("/op_info/graph_id", json!(id)),
            ("/op_info/kernel_name", json!(name)),
            ("/op_info/py_module_path", json!(name)),
            ("/op_info/inputs/0/0/name", json!(name)),
            ("/op_info/outputs/0/0/name", json!(name)),
            ("/SocInfo/deviceId", json!(id)),
            ("/SocInfo/op_debug_dir", json!(name)),
        ];
        let of_akg = [
            ("/id", json!(id)),
            ("/op", json!(name)),
            ("/composite_graph", json!(name)),
            ("/node_name", json!(name)),
            ("/op_desc/0/impl_path", json!(name)),
            ("/op_desc/1/ptr_address", json!(name)),
        ];
        for (text, changes) in [(OLDER, &of_r1_2[..]), (COMPOSITE, &of_akg[..])] {
            let before = read(text);
            let mut document = parse(text);
            for (at, value) in changes {
                document = with(&document, at, value.clone());
            }
            let after = read(&document.to_string());
            prop_assert_eq!(after.job.digest(), before.job.digest());
            prop_assert_eq!(&after.spec, &before.spec);
            comes_back(&after)?;
        }
    }

    /// The tensors of AKG renamed, each as often as it stands there.
    #[test]
    fn renamed_tensors_change_no_key(salt in "[a-z]{1,8}") {
        let before = read(COMPOSITE);
        let renamed = COMPOSITE.replace("\"tensor_name\":\"", &format!("\"tensor_name\":\"{salt}"));
        prop_assert_ne!(&renamed, COMPOSITE);
        prop_assert_eq!(read(&renamed).job, before.job);
    }

    /// The same by the fields of the file.
    #[test]
    fn the_request_changes_no_key(Document(text) in newer_document(), name in ".*", id in any::<i64>()) {
        let before = read(text);
        let mut asked = parse(text);
        for at in ["/job_id", "/source_id", "/job_content/scope_id"] {
            asked = with(&asked, at, id.into());
        }
        for at in ["/job_type", "/job_content/full_name", "/job_content/fusion_op_name", "/job_content/graph_name",
            "/job_content/SocInfo/deviceId", "/job_content/SocInfo/op_debug_dir"] {
            asked = with(&asked, at, name.as_str().into());
        }
        let after = read(&asked.to_string());
        prop_assert_eq!(after.job.digest(), before.job.digest());
        prop_assert_eq!(&after.spec, &before.spec);
        comes_back(&after)?;
    }

    #[test]
    fn any_bytes_give_a_descriptor_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        fuzz(&bytes);
    }

    #[test]
    fn changed_bytes_give_a_descriptor_or_an_error(
        Document(text) in document(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3u8), 1..4),
    ) {
        let mut bytes = text.as_bytes().to_vec();
        for (at, byte, how) in changes {
            let at = at.index(bytes.len());
            match how {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ => _ = bytes.remove(at),
            }
        }
        fuzz(&bytes);
        if let Ok(descriptor) = read_info(&bytes) {
            comes_back(&descriptor)?;
            differ_by_digest(&read(text), &descriptor)?;
        }
    }

    /// A digit for a digit, a letter for a letter: the file stays JSON, with another meaning.
    #[test]
    fn changed_digits_and_letters_come_back(
        Document(text) in document(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = text.as_bytes().to_vec();
        let places: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at].is_ascii_alphanumeric()).collect();
        for (at, byte) in changes {
            let at = places[at.index(places.len())];
            bytes[at] = match bytes[at].is_ascii_digit() {
                true => b'0' + byte % 10,
                false => b'a' + byte % 26,
            };
        }
        fuzz(&bytes);
        if let Ok(descriptor) = read_info(&bytes) {
            comes_back(&descriptor)?;
            differ_by_digest(&read(text), &descriptor)?;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1024, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any value at any place, or none.
    #[test]
    fn changed_values_give_a_descriptor_or_an_error(
        Document(text) in document(),
        at in any::<prop::sample::Index>(),
        value in prop::option::of(any_json()),
    ) {
        let document = parse(text);
        let paths = paths(&document);
        let at = &paths[at.index(paths.len())];
        let changed = match value {
            Some(value) => with(&document, at, value),
            None => without(&document, at).unwrap_or(document),
        };
        if let Ok(descriptor) = read_info(changed.to_string().as_bytes()) {
            comes_back(&descriptor)?;
            differ_by_digest(&read(text), &descriptor)?;
            for generation in Generation::ALL {
                if let Ok(name) = KernelName::mindspore(&descriptor, generation, 0) {
                    let named_by = descriptor.named_by(name.as_str());
                    let same = named_by.map(|other| KernelName::mindspore(&descriptor, other, 0));
                    let number = |name: &KernelName| ForeignName::parse(name.as_str()).map(|name| name.number());
                    prop_assert_eq!(same.and_then(Result::ok).as_ref().map(number), Some(number(&name)));
                }
            }
        }
    }
}
