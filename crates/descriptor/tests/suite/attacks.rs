//! The fuzzer's body over a corpus: our documents, truncated, changed and concatenated, and attacks written by hand.

use std::time::Duration;

use opkeep_descriptor::{fuzz, read_info, write_info};
use serde_json::{Value, json};

use crate::tree::{COMPOSITE, EXAMPLE, FUSED, OLDER, OLDEST, RICH, parse, paths, with};

const ALL: [&str; 6] = [EXAMPLE, RICH, FUSED, OLDER, OLDEST, COMPOSITE];

#[test]
fn documents_cut_and_changed() {
    for text in ALL {
        fuzz(text.as_bytes());
        for length in (0..text.len()).step_by(97) {
            fuzz(&text.as_bytes()[..length]);
        }
        for at in (0..text.len()).step_by(text.len() / 120) {
            for byte in [0, b'"', b'{', b']', b'9', b'-', 0xff] {
                let mut bytes = text.as_bytes().to_vec();
                bytes[at] = byte;
                fuzz(&bytes);
            }
        }
    }
}

/// Any value of any document in the place of any other, as far as that goes in reasonable time.
#[test]
fn values_in_each_others_places() {
    let words =
        [json!("NULL"), json!([[]]), json!({ "shape": "NULL" }), json!(-2), json!("inf"), json!("Data")];
    for text in ALL {
        let document = parse(text);
        let paths = paths(&document);
        for (index, at) in paths.iter().enumerate().step_by(3) {
            let other = document.pointer(&paths[(index * 7 + 3) % paths.len()]).unwrap().clone();
            let word = words[index / 3 % words.len()].clone();
            for value in [other, word] {
                fuzz(with(&document, at, value).to_string().as_bytes());
            }
        }
    }
}

/// A document that claims to be of several generations is of the newest, and of no two.
#[test]
fn documents_of_several_generations() {
    let merged = |texts: &[&str]| {
        let mut all = serde_json::Map::new();
        for text in texts {
            all.extend(parse(text).as_object().unwrap().clone());
        }
        Value::Object(all)
    };
    for texts in [
        [EXAMPLE, OLDER],
        [OLDER, OLDEST],
        [OLDER, COMPOSITE],
        [OLDEST, COMPOSITE],
        [EXAMPLE, COMPOSITE],
        [EXAMPLE, OLDEST],
    ] {
        let document = merged(&texts);
        fuzz(document.to_string().as_bytes());
        let descriptor = read_info(document.to_string().as_bytes()).unwrap();
        assert_eq!(parse(&write_info(&descriptor)), document);
    }
}

#[test]
fn attacks_by_hand() {
    let deep =
        |open: &str, close: &str, depth: usize| format!("{}{}", open.repeat(depth), close.repeat(depth));
    for attack in [
        r#"{"op_desc":[],"input_desc":[],"output_desc":[],"process":""}"#.to_owned(),
        r#"{"op_desc":[],"input_desc":[[]],"output_desc":[{}],"process":"","target_info":{"arch":""}}"#
            .to_owned(),
        r#"{"op_desc":[],"input_desc":[],"output_desc":[{"(tensor)":["op",9,9]}],"process":""}"#.to_owned(),
        r#"{"inputs":[],"outputs":[],"name":"","socVersion":""}"#.to_owned(),
        r#"{"inputs":[[{}]],"outputs":[],"name":"","socVersion":""}"#.to_owned(),
        r#"{"inputs":[[{"valid":false},{"valid":false}]],"outputs":[],"name":"","socVersion":""}"#.to_owned(),
        r#"{"op_info":null,"SocInfo":{"socVersion":""}}"#.to_owned(),
        r#"{"job_content":{"SocInfo":{"socVersion":""},"op_list":[]}}"#.to_owned(),
        r#"{"job_content":{"SocInfo":{"socVersion":""},"op_list":[{"type":"Data","output_desc":[]}]}}"#
            .to_owned(),
        format!(
            r#"{{"job_content":{{"SocInfo":{{"socVersion":""}},"op_list":[],"x":{}}}}}"#,
            deep("[", "]", 120)
        ),
        format!(
            r#"{{"job_content":{{"SocInfo":{{"socVersion":""}},"op_list":[],"x":{}}}}}"#,
            deep("[", "]", 130)
        ),
        format!(r#"{{"op_desc":{}}}"#, deep("[", "]", 127)),
        deep("{\"op_info\":", "}", 100),
    ] {
        fuzz(attack.as_bytes());
    }
}

/// Far below the time that anything quadratic would need, far above what a slow machine does.
const SOON: Duration = Duration::from_secs(180);

#[test]
fn great_composites_take_linear_time() {
    let tensor = |name: usize| format!(r#"{{"data_type":"int8","shape":[],"tensor_name":"t{name}"}}"#);
    let ops = (0..15_000).map(|index| {
        let (input, output) = (tensor(index), tensor(index + 1));
        format!(r#"{{"name":"A","input_desc":[[{input}]],"output_desc":[{output}],"ptr_address":"p"}}"#)
    });
    let ops = ops.collect::<Vec<_>>().join(",");
    let outputs = (0..10_000).map(tensor).collect::<Vec<_>>().join(",");
    let first = tensor(0);
    let text = format!(
        r#"{{"process":"cpu","op_desc":[{ops}],"input_desc":[[{first}]],"output_desc":[{outputs}],"op":"A_1"}}"#
    );
    let start = opkeep_testkit::CpuTime::start();
    fuzz(text.as_bytes());
    assert!(start.elapsed() < SOON, "took {:?}", start.elapsed());
}
