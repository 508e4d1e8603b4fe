//! Fields that only repeat others do not count, in each form that frameworks write.

use opkeep_descriptor::{Descriptor, read_info, write_info};
use opkeep_digest::Digest;
use serde_json::{Value, json};

use crate::tree::{EXAMPLE, FUSED, RICH, parse, read, read_value, with};

const OP: &str = "/job_content/op_list/1";

/// The digest of the descriptor, which round-trips with its envelope and without.
fn digest(document: &Value) -> Digest {
    let descriptor = read_value(document).unwrap();
    assert_eq!(parse(&write_info(&descriptor)), *document);
    let bare = Descriptor { envelope: Default::default(), ..descriptor.clone() };
    let again = read_info(write_info(&bare).as_bytes()).unwrap();
    assert_eq!(again.job.digest(), descriptor.job.digest());
    descriptor.job.digest()
}

fn set(document: &mut Value, field: &str, value: Value) {
    document.pointer_mut(OP).unwrap()[field] = value;
}

/// Before r2.1, `attr_desc` leaves out `isRef`; since then it has it.
#[test]
fn the_attribute_is_ref_may_be_repeated() {
    let mut document = parse(EXAMPLE);
    let attr =
        |name: &str, value: Value| json!({ "name": name, "dtype": "other", "value": value, "valid": true });
    set(&mut document, "attrs", json!([attr("axis", json!(3)), attr("isRef", json!(false))]));
    let none = digest(&document);
    for (repeated, counts) in [
        (json!([3]), false),
        (json!([3, false]), false),
        (json!([3, true]), true),
        (json!([false, 3]), true),
        (json!([]), true),
    ] {
        set(&mut document, "attr_desc", repeated.clone());
        assert_eq!(digest(&document) != none, counts, "{repeated}");
    }
}

/// An `output_data_desc` may leave out what has no `ori_shape`: absent and reused outputs, and groups.
#[test]
fn outputs_that_are_not_described_need_not_be_repeated() {
    let document = parse(EXAMPLE);
    let output = document.pointer(&format!("{OP}/output_desc/0")).unwrap().clone();
    let mut repeat = output.clone();
    repeat.as_object_mut().unwrap().remove("name");
    let absent = json!({ "name": "z", "param_type": "optional", "shape": "NULL", "valid": false });
    let mut nameless = absent.clone();
    nameless.as_object_mut().unwrap().remove("name");
    let mut document = with(&document, &format!("{OP}/output_desc"), json!([output, absent, [output]]));
    let repeats = [json!([repeat]), json!([repeat, nameless, [repeat]])];
    document.pointer_mut(OP).unwrap().as_object_mut().unwrap().remove("output_data_desc");
    let none = digest(&document);
    for repeated in repeats {
        set(&mut document, "output_data_desc", repeated.clone());
        assert_eq!(digest(&document), none, "{repeated}");
    }
    for other in
        [json!([]), json!([repeat, nameless]), json!([repeat, absent, [repeat]]), json!([repeat, repeat])]
    {
        set(&mut document, "output_data_desc", other.clone());
        assert_ne!(digest(&document), none, "{other}");
    }
    // The reused output of a fused job.
    assert!(read(FUSED).envelope.ops[0].output_data_desc.as_ref().unwrap().described_only);
    assert!(read(FUSED).job.ops[0].extra.is_empty());
}

/// A repetition may be spelled differently from the repeated fields.
#[test]
fn a_twin_is_one_however_it_is_spelled() {
    let repeat = format!("{OP}/output_data_desc/0");
    let none = read(EXAMPLE).job.digest();
    for (removed, stays) in [("dtype", true), ("data_type", true), ("param_type", true), ("valid", false)] {
        let mut document = parse(EXAMPLE);
        document.pointer_mut(&repeat).unwrap().as_object_mut().unwrap().remove(removed);
        assert_eq!(digest(&document) == none, stays, "{removed}");
        // The outputs lack the field, and the repetition has it.
        let mut document = parse(EXAMPLE);
        let output = document.pointer_mut(&format!("{OP}/output_desc/0")).unwrap();
        output.as_object_mut().unwrap().remove(removed);
        assert_eq!(digest(&document) == none, stays, "{removed}");
    }
    let named = with(
        &parse(EXAMPLE),
        &repeat,
        parse(EXAMPLE).pointer(&format!("{OP}/output_desc/0")).unwrap().clone(),
    );
    assert_eq!(digest(&named), none);
}

/// A repeated tensor follows the tensor that a program changes.
#[test]
fn repeated_tensors_follow_a_changed_one() {
    for text in [EXAMPLE, RICH, FUSED] {
        let mut descriptor = read(text);
        let opkeep_descriptor::Arg::One(output) = &mut descriptor.job.ops[0].outputs[0] else { panic!() };
        output.shape.push(9);
        let again = read(&write_info(&descriptor));
        assert_eq!(again, descriptor);
    }
}
