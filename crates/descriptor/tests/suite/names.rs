//! Kernel names.

use opkeep_descriptor::{KernelName, Key};
use opkeep_digest::Digest;

use crate::tree::{EXAMPLE, RICH, read};

/// A key whose first 64 bits are `prefix`.
fn key(prefix: u64) -> Key {
    let mut bytes = [0x5a; 32];
    bytes[..8].copy_from_slice(&prefix.to_be_bytes());
    Key::from(Digest::from_bytes(bytes))
}

/// The name of a fused kernel of these functions.
fn name(funcs: &[&str], prefix: u64) -> String {
    let mut job = read(EXAMPLE).job;
    let op = job.ops.remove(0);
    for func in funcs {
        let mut op = op.clone();
        op.func_name = (*func).to_owned();
        job.ops.push(op);
    }
    let name = KernelName::new(&job, &key(prefix));
    assert!(name.as_str().bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'), "{name}");
    assert!(name.as_str().len() <= 200, "{} bytes: {name}", name.as_str().len());
    assert_eq!(name.symbol(), format!("{name}__kernel0"));
    name.to_string()
}

#[test]
fn functions_and_the_keys_first_64_bits_in_decimal() {
    assert_eq!(name(&["square"], 12_484_080_525_657_478_220), "square_12484080525657478220");
    assert_eq!(name(&["square"], u64::MAX), "square_18446744073709551615");
    assert_eq!(name(&["square"], 0), "square_0");
    assert_eq!(name(&["add", "relu6"], 7), "te_fusion_add_relu6_7");
    // A symbol of C does not begin with a digit.
    assert_eq!(name(&["2d_square"], 7), "_2d_square_7");
    assert_eq!(name(&["2d_square", "add"], 7), "te_fusion_2d_square_add_7");
    let rich = read(RICH);
    assert_eq!(KernelName::new(&rich.job, &key(1)).as_str(), "te_fusion_concat_d_layer_norm_add_1");
}

#[test]
fn the_name_is_the_same_for_every_rank() {
    let (one, other) =
        (read(EXAMPLE), read(&EXAMPLE.replace("./rank_0/", "./rank_5/").replace("_2\"", "_5\"")));
    assert_ne!(one.envelope, other.envelope);
    assert_eq!(KernelName::new(&one.job, &key(3)), KernelName::new(&other.job, &key(3)));
}

#[test]
fn long_lists_are_cut() {
    let cut = name(&["layer_norm"; 100], u64::MAX);
    assert!(cut.starts_with("te_fusion_layer_norm_layer_norm_"), "{cut}");
    assert!(cut.ends_with("_layer_norm_more_18446744073709551615"), "{cut}");
    // The name has as many functions as fit: one more would not fit.
    assert!(cut.len() + "_layer_norm".len() > 200, "{}", cut.len());

    let long = "f".repeat(500);
    let single = name(&[&long], u64::MAX);
    assert!(single.starts_with("fff") && single.ends_with("f_more_18446744073709551615"), "{single}");
    let second = name(&["a", &long], 1);
    assert_eq!(second, "te_fusion_a_more_1");
    name(&[&long, &long], u64::MAX);
    // Every length around the limit.
    for length in 150..180 {
        name(&[&long[..length]], u64::MAX);
        name(&[&long[..length], "g"], u64::MAX);
        name(&["g", &long[..length]], u64::MAX);
    }
}

#[test]
fn other_characters_become_underscores() {
    assert_eq!(name(&["a-b.c/d e"], 1), "a_b_c_d_e_1");
    assert_eq!(name(&["größe\0"], 1), "gr__e__1");
    assert_eq!(name(&[""], 1), "_1");
    name(&["é".repeat(300).as_str(); 3], u64::MAX);
    name(&[], 1);
}
