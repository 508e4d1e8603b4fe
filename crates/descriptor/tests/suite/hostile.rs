//! Files that nobody should have written.

use std::time::{Duration, Instant};

use opbuild_descriptor::{Arg, InfoError, MAX_INFO_BYTES, read_info, write_info};
use serde_json::{Value, json};

use crate::tree::{EXAMPLE, RICH, parse, read_value, with, without};

fn refused(bytes: impl AsRef<[u8]>) -> InfoError {
    read_info(bytes.as_ref()).expect_err("it is no descriptor")
}

#[test]
fn every_truncation_is_refused() {
    let whole = EXAMPLE.trim_end().len();
    for length in 0..whole {
        match refused(&EXAMPLE.as_bytes()[..length]) {
            InfoError::Empty if length == 0 => {}
            InfoError::Json { bytes, line, column, problem } if length > 0 => {
                assert_eq!(bytes, length);
                assert!(line >= 1 && !problem.is_empty(), "{line}:{column} {problem}");
            }
            other => panic!("{length} bytes: {other}"),
        }
    }
    assert!(read_info(&EXAMPLE.as_bytes()[..whole]).is_ok());
}

#[test]
fn torn_files_are_refused() {
    let nul = |count: usize| "\0".repeat(count);
    // What a file system leaves after a power cut: zeros for the end, or for everything.
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

#[test]
fn too_large_is_refused_unread() {
    let bytes = vec![b' '; 17 << 20];
    let error = refused(&bytes);
    assert_eq!(error, InfoError::TooLarge { bytes: 17 << 20, limit: MAX_INFO_BYTES });
    assert!(error.to_string().contains("17825792"), "{error}");
    // To the byte: at the limit the content decides.
    assert_eq!(refused(&bytes[..MAX_INFO_BYTES as usize]), InfoError::Empty);
    let above = &bytes[..MAX_INFO_BYTES as usize + 1];
    assert!(matches!(refused(above), InfoError::TooLarge { .. }));
}

#[test]
fn other_generations_are_named() {
    let found = |text: &str| match refused(text) {
        InfoError::Generation { found } => found,
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
            format!("{add}/input_desc/0/range/1"),
            json!([1]),
            "field `job_content.op_list[6].input_desc[0].range[1]`: expected two whole numbers, found [1]",
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
            "field `job_content.op_list[4].input_desc[0][1]`: expected a tensor that is there, found \"an absent one\"",
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
    // What is found is quoted, but not at any length.
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

/// As in Python's and MindSpore's JSON, the last of several wins.
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
    // The JSON library's private name for a number gives no panic.
    for text in [r#"{"$serde_json::private::Number":"1"}"#, r#"{"$serde_json::private::Number":"x"}"#] {
        _ = read_info(EXAMPLE.replacen("\"\"", text, 1).as_bytes());
        _ = read_info(text.as_bytes());
    }
}

fn within(limit: Duration, what: impl FnOnce()) {
    let start = Instant::now();
    what();
    assert!(start.elapsed() < limit, "took {:?}", start.elapsed());
}

/// Far below the time that anything quadratic would need, far above what a slow machine does.
const SOON: Duration = Duration::from_secs(180);

#[test]
fn fifty_thousand_operators_take_linear_time() {
    let mut text = String::from(r#"{"job_content":{"SocInfo":{"socVersion":"s"},"op_list":["#);
    for index in 0..50_000 {
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
        assert_eq!(descriptor.job.ops.len(), 50_000);
        descriptor.job.digest();
        write_info(&descriptor);
        descriptor.envelope = Default::default();
        write_info(&descriptor);
    });
}

#[test]
fn thirty_thousand_outputs_take_linear_time() {
    let document = parse(EXAMPLE);
    let tensor = document.pointer("/job_content/op_list/0/output_desc/0").unwrap().clone();
    // All of one name, which is the worst for who looks names up.
    let outputs = Value::from(vec![tensor; 30_000]);
    let text = with(&document, "/job_content/op_list/0/output_desc", outputs).to_string();
    assert!((text.len() as u64) < MAX_INFO_BYTES);
    within(SOON, || {
        let descriptor = read_info(text.as_bytes()).unwrap();
        assert_eq!(descriptor.job.data[0].outputs.iter().flat_map(Arg::iter).count(), 30_000);
        descriptor.job.digest();
    });
}
