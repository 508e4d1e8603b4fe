//! Damaged and hostile files.

use std::time::Duration;

use opkeep_descriptor::{Arg, Descriptor, InfoError, MAX_INFO_BYTES, read_info, write_info};
use serde_json::{Value, json};

use crate::tree::{COMPOSITE, EXAMPLE, OLDER, OLDEST, RICH, parse, read_value, with, without};

fn refused(bytes: impl AsRef<[u8]>) -> InfoError {
    read_info(bytes.as_ref()).expect_err("it is no descriptor")
}

#[test]
fn every_truncation_is_refused() {
    let whole = EXAMPLE.trim_end().len();
    for length in 0..whole {
        match refused(&EXAMPLE.as_bytes()[..length]) {
            InfoError::Empty if length == 0 => {}
            InfoError::Json { bytes, line, column, problem, help, .. } if length > 0 => {
                assert_eq!(bytes, length);
                assert!(help.contains("delete it"), "{help}");
                assert!(line >= 1 && column >= 1 && !problem.is_empty(), "{line}:{column} {problem}");
            }
            other => panic!("{length} bytes: {other}"),
        }
    }
    assert!(read_info(&EXAMPLE.as_bytes()[..whole]).is_ok());
}

#[test]
fn torn_files_are_refused() {
    let nul = |count: usize| "\0".repeat(count);
    // Files after a power cut: zeros at the end, or in the whole file.
    assert!(matches!(refused(format!("{}{}", &EXAMPLE[..512], nul(512))), InfoError::Json { .. }));
    assert!(matches!(refused(format!("{EXAMPLE}{}", nul(1))), InfoError::Json { .. }));
    assert!(matches!(refused(nul(4096)), InfoError::Json { .. }));
    assert!(matches!(refused(format!("{EXAMPLE}{EXAMPLE}")), InfoError::Json { .. }));
    assert!(matches!(refused(b"{\"job_content\":\"\xff\xfe\"}"), InfoError::Json { .. }));
    assert!(matches!(refused(b"\xff\xfe\x00"), InfoError::Json { .. }));
    assert_eq!(refused(""), InfoError::Empty);
    assert_eq!(refused(" \n\t\r\n"), InfoError::Empty);
}

#[test]
fn deep_nesting_is_refused() {
    for deep in ["[".repeat(200_000), "{\"a\":".repeat(200_000)] {
        assert!(matches!(refused(&deep), InfoError::Json { .. }));
        let inside = EXAMPLE.replacen("\"\"", &deep, 1);
        assert!(matches!(refused(inside), InfoError::Json { .. }));
    }
}

/// A list of `depth` levels at `at` in `text`, which stands `above` levels deep.
fn nested(text: &str, at: &str, depth: usize) -> Result<Descriptor, InfoError> {
    let list = parse(&format!("{}{}", "[".repeat(depth), "]".repeat(depth)));
    read_value(&with(&parse(text), at, list))
}

/// A document at the limit of depth can be read again after it is written, also in a form in which it is deeper.
#[test]
fn nesting_is_read_as_deep_as_it_can_be_written() {
    for (text, at, above, limit) in [
        (RICH, "/job_content/future_content", 2, 72),
        (RICH, "/job_content/op_list/5/attrs/0/value", 6, 72),
        (OLDER, "/op_info/attrs/0/value", 4, 64),
        (OLDER, "/op_info/inputs/0/0/future_tensor", 5, 64),
        (OLDEST, "/future_op", 1, 64),
        (COMPOSITE, "/op_desc/2/attr/0/value", 5, 64),
        (COMPOSITE, "/target_info/feature", 2, 64),
    ] {
        let descriptor = nested(text, at, limit - above).unwrap_or_else(|error| panic!("{at}: {error}"));
        opkeep_descriptor::fuzz(write_info(&descriptor).as_bytes());
        let bare = Descriptor { envelope: Default::default(), ..descriptor.clone() };
        let again = read_info(write_info(&bare).as_bytes()).unwrap_or_else(|error| panic!("{at}: {error}"));
        assert_eq!(again.job.digest(), descriptor.job.digest(), "{at}");
        match nested(text, at, limit - above + 1) {
            Err(InfoError::TooDeep { field, line: 1, column, limit: found }) => {
                assert_eq!(found, limit);
                assert!(field.contains("[0][0][0]") && column > limit, "{field} at column {column}");
            }
            other => panic!("{at}: {other:?}"),
        }
    }
}

/// The JSON library reads an object with its own name for a number as that number: another job with the same key.
#[test]
fn keys_of_the_json_library_are_refused() {
    let key = "$serde_json::private::Number";
    for object in [
        format!(r#"{{"{key}":"12"}}"#),
        format!(r#"{{"{key}":"x"}}"#),
        format!(r#"{{"{key}":"12","a":1}}"#),
        r#"{"\u0024serde_json::private::Number":"12"}"#.to_owned(),
        r#"{"a":{"$serde_json::private::RawValue":"1"}}"#.to_owned(),
    ] {
        let document = EXAMPLE.replacen("\"l1_size\"", &format!("\"zz\": {object},\n\"l1_size\""), 1);
        let error = refused(&document);
        let lines = EXAMPLE[..EXAMPLE.find("\"l1_size\"").unwrap()].matches('\n').count() + 1;
        let InfoError::ReservedKey { line, column, .. } = &error else { panic!("{error}") };
        let offset = document.lines().nth(line - 1).unwrap().find(['$', '\\']).unwrap();
        assert_eq!((*line, *column), (lines, offset), "{error}");
        assert!(matches!(refused(&object), InfoError::ReservedKey { line: 1, .. }));
    }
    // As a value, it is only a text.
    assert!(read_info(EXAMPLE.replacen("\"\"", &format!("\"{key}\""), 1).as_bytes()).is_ok());
}

/// Positions are stated once, count from 1, and only a document that ends early is truncated.
#[test]
fn invalid_json_and_truncated_json_have_different_help() {
    let truncated = |bytes: &[u8]| match refused(bytes) {
        InfoError::Json { line, column, problem, help, .. } => {
            assert!(!problem.contains("line"), "{problem}");
            (line, column, help.contains("delete it"))
        }
        other => panic!("{other}"),
    };
    assert_eq!(truncated(b"{\n"), (2, 1, true));
    assert_eq!(truncated(b"{\"a\": 1"), (1, 7, true));
    assert!(truncated(format!("{}\0\0", &EXAMPLE[..100]).as_bytes()).2);
    // A byte order mark, UTF-16, `version.info` of an installation.
    assert_eq!(truncated("\u{feff}{}".as_bytes()), (1, 1, false));
    assert_eq!(truncated(b"\xff\xfe{\0}\0 "), (1, 1, false));
    assert_eq!(truncated(b"Version=7.0.RC1\n"), (1, 1, false));
    let error = refused("\n  [1]");
    assert!(matches!(error, InfoError::Generation { line: 2, column: 3, .. }), "{error}");
    assert!(error.to_string().contains("at line 2 column 3"), "{error}");
}

#[test]
fn too_large_is_refused_unread() {
    let bytes = vec![b' '; 5 << 20];
    let error = refused(&bytes);
    assert_eq!(error, InfoError::TooLarge { bytes: 5 << 20, limit: MAX_INFO_BYTES });
    assert!(error.to_string().contains("5242880"), "{error}");
    // The limit is exact: a document at the limit is read.
    assert_eq!(refused(&bytes[..MAX_INFO_BYTES as usize]), InfoError::Empty);
    let above = &bytes[..MAX_INFO_BYTES as usize + 1];
    assert!(matches!(refused(above), InfoError::TooLarge { .. }));
}

#[test]
fn other_generations_are_named() {
    let found = |text: &str| match refused(text) {
        InfoError::Generation { found, .. } => found,
        other => panic!("{other}"),
    };
    let fused = r#"{"fusion_op":{"op_list":[]},"graph_id":0,"l1_size":-1}"#;
    assert!(found(fused).contains("fusion_op"), "{}", found(fused));
    assert!(found("{}").contains("an object"));
    for (text, words) in
        [("[1,2]", "[1,2]"), ("null", "null"), ("\"job_content\"", "job_content"), ("7", "7")]
    {
        assert!(found(text).contains(words), "{text}");
    }
    let long = format!("{{\"{}\":1}}", "n".repeat(1 << 20));
    assert!(found(&long).len() < 1000);
    assert!(found(&format!("\"{}\"", "n".repeat(1 << 20))).len() < 1000);
}

/// The error for `value` at the place `at`, without line and column, which are the value's.
fn error_at(at: &str, value: Value) -> String {
    let changed = with(&parse(RICH), at, value);
    let error = read_value(&changed).expect_err(at);
    let InfoError::Wrong { line, column, .. } = &error else { panic!("{at}: {error}") };
    let whole = changed.to_string();
    let nearest = at.match_indices('/').map(|(end, _)| &at[..end]).skip(1).chain([at]);
    let begins = |at: &str| whole[column - 1..].starts_with(&changed.pointer(at).unwrap().to_string());
    assert!(*line == 1 && nearest.into_iter().any(begins), "{at}: {error}");
    error.to_string().replace(&format!(" at line {line} column {column}"), "")
}

#[test]
fn errors_name_the_place() {
    let add = "/job_content/op_list/6";
    for (at, value, text) in [
        ("/job_id".to_owned(), json!("7"), "field `job_id`: expected a whole number of 64 bits, found \"7\""),
        ("/job_content".into(), json!([]), "field `job_content`: expected an object, found []"),
        (
            "/job_content/SocInfo/socVersion".into(),
            json!(1),
            "field `job_content.SocInfo.socVersion`: expected a string, found 1",
        ),
        ("/job_content/op_list".into(), json!({}), "field `job_content.op_list`: expected a list, found {}"),
        (
            "/job_content/op_list/2".into(),
            json!(null),
            "field `job_content.op_list[2]`: expected an object, found null",
        ),
        (
            format!("{add}/input_desc/0/shape/0"),
            json!(1.5),
            "field `job_content.op_list[6].input_desc[0].shape[0]`: expected a whole number of 64 bits, found 1.5",
        ),
        (
            "/job_content/op_list/5/input_desc/1/range/1".into(),
            json!([1]),
            "field `job_content.op_list[5].input_desc[1].range[1]`: expected two whole numbers, found [1]",
        ),
        (
            format!("{add}/output_desc/1/data_type"),
            json!(0),
            "field `job_content.op_list[6].output_desc[1].data_type`: expected a string, found 0",
        ),
        (
            format!("{add}/unknown_shape"),
            json!("no"),
            "field `job_content.op_list[6].unknown_shape`: expected true or false, found \"no\"",
        ),
        (
            "/job_content/op_list/5/attrs/0/value".into(),
            json!({}),
            "field `job_content.op_list[5].attrs[0].value`: expected a value or a list of values, found {}",
        ),
        (
            "/job_content/op_list/5/attrs/7/value/1/0".into(),
            json!({}),
            "field `job_content.op_list[5].attrs[7].value[1][0]`: expected a value or a list of values, found {}",
        ),
        (
            "/job_content/op_list/4/input_desc/0/1/shape".into(),
            json!("NULL"),
            "field `job_content.op_list[4].input_desc[0][1]`: expected a tensor, found \"an absent one\"",
        ),
    ] {
        assert_eq!(error_at(&at, value), text);
    }
    let missing = without(&parse(RICH), "/job_content/op_list/6/input_desc/0/shape").unwrap();
    let error = read_value(&missing).unwrap_err().to_string();
    let place = "job_content.op_list[6].input_desc[0]";
    let column = missing
        .to_string()
        .find(&missing.pointer("/job_content/op_list/6/input_desc/0").unwrap().to_string());
    let column = column.unwrap() + 1;
    assert_eq!(
        error,
        format!("field `{place}.shape` is missing from `{place}`, which begins at line 1 column {column}")
    );
    // Over several lines, too.
    let error = read_info(EXAMPLE.replace("\"l1_size\": -1", "\"l1_size\":\n  []").as_bytes()).unwrap_err();
    let lines = EXAMPLE[..EXAMPLE.find("\"l1_size\"").unwrap()].matches('\n').count();
    let place = format!("field `job_content.l1_size` at line {} column 3: ", lines + 2);
    assert!(error.to_string().starts_with(&place), "{error}");
    // The found value is quoted up to a maximum length.
    assert!(error_at("/job_content/op_list", json!("x".repeat(1 << 20))).len() < 200);
}

#[test]
fn huge_numbers_are_refused_where_they_mean_something() {
    let great = format!("1{}", "0".repeat(400));
    for token in [great.as_str(), "9223372036854775808", "-9223372036854775809", "1e2", "1.0", "1e999"] {
        let error = error_at("/job_content/op_list/6/input_desc/0/shape/0", parse(token));
        assert!(error.starts_with("field `job_content.op_list[6].input_desc[0].shape[0]`:"), "{error}");
    }
    let attr = "/job_content/op_list/5/attrs";
    for token in ["1e999", "-1e999", great.as_str()] {
        let error = error_at(&format!("{attr}/0/value"), parse(token));
        assert!(error.starts_with("field `job_content.op_list[5].attrs[0].value`"), "{error}");
    }
    for token in ["18446744073709551616", "-9223372036854775809", great.as_str()] {
        let error = error_at(&format!("{attr}/5/value"), parse(token));
        assert!(error.contains("expected a whole number of 64 bits"), "{error}");
    }
    // In an unknown field they are only kept.
    for token in ["1e999", great.as_str()] {
        let document = with(&parse(RICH), "/job_content/future_content", parse(token));
        assert_eq!(parse(&write_info(&read_value(&document).unwrap())), document);
    }
}

/// As in Python's and MindSpore's JSON, the last of several equal names counts.
#[test]
fn of_duplicate_keys_the_last_counts() {
    let twice = EXAMPLE.replacen("\"type\": \"Square\"", "\"type\": \"Abs\", \"type\": \"Square\"", 1);
    assert_ne!(twice, EXAMPLE);
    assert_eq!(read_info(twice.as_bytes()), read_info(EXAMPLE.as_bytes()));
}

/// Unknown fields of the document and of `job_content` are listed together: no name of one may pass for the other's.
#[test]
fn names_that_would_pass_for_others_are_refused() {
    for name in ["job_content.future_content", "job_content.", "(shared names)"] {
        let mut document = parse(RICH);
        document.as_object_mut().unwrap().insert(name.into(), json!(1));
        let error = read_value(&document).unwrap_err().to_string();
        assert!(error.contains(name), "{error}");
    }
}

fn within(limit: Duration, what: impl FnOnce()) {
    let start = opkeep_testkit::CpuTime::start();
    what();
    assert!(start.elapsed() < limit, "took {:?}", start.elapsed());
}

/// Far below the time that anything quadratic would need, far above what a slow machine does.
const SOON: Duration = Duration::from_secs(180);

#[test]
fn twenty_thousand_operators_take_linear_time() {
    let mut text = String::from(r#"{"job_content":{"SocInfo":{"socVersion":"s"},"op_list":["#);
    for index in 0..20_000 {
        let tensor = |name: String| format!(r#"{{"name":"{name}","dtype":"int8","shape":[],"format":"ND"}}"#);
        let (input, output) = (tensor(format!("t{index}")), tensor(format!("t{}", index + 1)));
        let comma = if index == 0 { "" } else { "," };
        text.push_str(&format!(
            r#"{comma}{{"type":"A","func_name":"a","module_name":"m","input_desc":[{input}],"output_desc":[{output}]}}"#
        ));
    }
    text.push_str("]}}");
    within(SOON, || {
        let mut descriptor = read_info(text.as_bytes()).unwrap();
        assert_eq!(descriptor.job.ops.len(), 20_000);
        descriptor.job.digest();
        write_info(&descriptor);
        descriptor.envelope = Default::default();
        write_info(&descriptor);
    });
}

#[test]
fn ten_thousand_outputs_take_linear_time() {
    let document = parse(EXAMPLE);
    let tensor = document.pointer("/job_content/op_list/0/output_desc/0").unwrap().clone();
    // All of one name, the worst case of a look-up by name.
    let outputs = Value::from(vec![tensor; 10_000]);
    let text = with(&document, "/job_content/op_list/0/output_desc", outputs).to_string();
    assert!((text.len() as u64) < MAX_INFO_BYTES);
    within(SOON, || {
        let descriptor = read_info(text.as_bytes()).unwrap();
        assert_eq!(descriptor.job.data[0].outputs.iter().flat_map(Arg::iter).count(), 10_000);
        descriptor.job.digest();
    });
}
