//! The fields that do not count, row by row.

use opkeep_descriptor::{Generation, IGNORED_FIELDS, write_info};
use serde_json::{Map, Value, json};

use crate::tree::{COMPOSITE, EXAMPLE, FUSED, OLDER, OLDEST, RICH, parse, read_value, without};

/// A document of the generation, and the path of a row's object in it.
fn sample(generation: Generation, object: &str) -> (Value, String) {
    let (text, at) = match (generation, object) {
        (Generation::R1_5, "SocInfo") => (EXAMPLE, "/job_content/SocInfo"),
        (Generation::R1_7, "SocInfo") => (FUSED, "/job_content/SocInfo"),
        (Generation::R2_1, "SocInfo") => (RICH, "/job_content/SocInfo"),
        (Generation::R1_2, "SocInfo") => (OLDER, "/SocInfo"),
        (Generation::R1_2, "op_info") => (OLDER, "/op_info"),
        (Generation::R1_2, "") => (OLDER, ""),
        (Generation::Akg, "op_desc[]") => (COMPOSITE, "/op_desc/1"),
        (Generation::Akg, "") => (COMPOSITE, ""),
        other => panic!("state where the object of {other:?} is"),
    };
    (parse(text), at.to_owned())
}

fn object<'a>(document: &'a mut Value, at: &str) -> &'a mut Map<String, Value> {
    document.pointer_mut(at).unwrap().as_object_mut().unwrap()
}

#[test]
fn rows_do_not_count_and_come_back() {
    for row in IGNORED_FIELDS {
        // Files of r1.5 and r1.6 are read alike.
        for generation in row.generations.iter().filter(|generation| **generation != Generation::R1_6) {
            let what = format!("{generation}: {}.{}", row.object, row.field);
            let (mut document, at) = sample(*generation, row.object);
            object(&mut document, &at).remove(row.field);
            let before = read_value(&document).unwrap();
            for value in [json!("some text"), json!(7), json!([1.5, null]), json!({ "a": true }), json!(null)]
            {
                object(&mut document, &at).insert(row.field.to_owned(), value);
                let after = read_value(&document).unwrap_or_else(|error| panic!("{what}: {error}"));
                assert_eq!(after.job.digest(), before.job.digest(), "{what}");
                assert_eq!(after.spec, before.spec, "{what}");
                assert_eq!(parse(&write_info(&after)), document, "{what}");
            }
            assert!(!row.why.is_empty());
        }
    }
}

/// A name is ignored only in the object and the generations of its row: anywhere else, and in any other generation, the field counts.
#[test]
fn the_same_name_elsewhere_counts() {
    let everywhere = [
        (EXAMPLE, vec!["", "/job_content", "/job_content/SocInfo", "/job_content/op_list/1"]),
        (OLDER, vec!["", "/SocInfo", "/op_info", "/op_info/inputs/0/0"]),
        (OLDEST, vec!["", "/inputs/0/0"]),
        (COMPOSITE, vec!["", "/op_desc/1", "/target_info", "/input_desc/0/0"]),
    ];
    for row in IGNORED_FIELDS {
        let mut counted = 0;
        for (text, places) in &everywhere {
            for at in places {
                let document = parse(text);
                let mut changed = document.clone();
                object(&mut changed, at).insert(row.field.to_owned(), json!("some text"));
                let document = without(&document, &format!("{at}/{}", row.field)).unwrap_or(document);
                let (before, after) = (read_value(&document).unwrap(), read_value(&changed).unwrap());
                let counts = after.job.digest() != before.job.digest() || after.spec != before.spec;
                let generation = before.envelope.generation.unwrap();
                let object = at.rsplit('/').find(|step| *step != "0").unwrap().replace("1", "op_desc[]");
                // AKG's operators have a known field of this name.
                let known = at == &"/op_desc/1" && row.field == "impl_path";
                let ignored = known || row.object == object && row.generations.contains(&generation);
                assert_eq!(counts, !ignored, "{generation} {at}: {}", row.field);
                counted += usize::from(counts);
            }
        }
        assert!(counted >= 10, "{}", row.field);
    }
}
