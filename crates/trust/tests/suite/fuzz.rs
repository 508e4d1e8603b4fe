//! The fuzzer's body over texts of keys and signatures: cut, changed and joined.

use opkeep_trust::{Signatures, fuzz};

use crate::{PUBLIC, SECRET, key, message};

/// Calls the body with every cut of `bytes`, and with every flipped bit.
fn mutations(bytes: &[u8]) {
    fuzz(bytes);
    for at in 0..bytes.len() {
        fuzz(&bytes[..at]);
        fuzz(&bytes[at..]);
        for bit in 0..8 {
            let mut changed = bytes.to_vec();
            changed[at] ^= 1 << bit;
            fuzz(&changed);
        }
    }
}

#[test]
fn keys_and_lists_are_read_as_they_are_written() {
    mutations(PUBLIC.as_bytes());
    mutations(SECRET.as_bytes());
    mutations(format!("# team\n{PUBLIC} {}\n\n{PUBLIC}  # again\n", key("two").public_key()).as_bytes());
    fuzz(format!("{PUBLIC}\n{SECRET}").as_bytes());
    fuzz(format!("{PUBLIC}{SECRET}").as_bytes());
    fuzz(b"0123456789abcdef");
}

#[test]
fn signatures_are_read_as_they_are_written() {
    let message = message(b"ELF");
    let signatures: Signatures = ["one", "two"].iter().map(|name| key(name).sign(&message)).collect();
    mutations(&signatures.encode());
    mutations(b"a later version's line\n\xff\xfe\n\n");
    // At the bounds.
    for lines in [63, 64, 65] {
        let many: String = (0..lines).map(|line| format!("line {line}\n")).collect();
        fuzz(many.as_bytes());
    }
    for bytes in [16 * 1024 - 1, 16 * 1024, 16 * 1024 + 1] {
        fuzz(&vec![b'a'; bytes]);
    }
}
