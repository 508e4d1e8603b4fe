//! The body of the fuzz target.

use std::io::Cursor;

use crate::index::Index;
use crate::reader::{BundleReader, CompressedBlock};
use crate::writer::BundleWriter;

/// Reads `bytes` as a bundle, with all of its entries.
///
/// # Panics
/// If the valid entries of a bundle do not give the bundle again, or another invariant does not hold.
pub fn fuzz(bytes: &[u8]) {
    let Ok(mut reader) = BundleReader::open(Cursor::new(bytes)) else { return };
    let index = reader.index().clone();
    assert_eq!(index.encode().len() as u64, index.encoded_bytes());
    assert_eq!(Index::decode(&index.encode()).ok().as_ref(), Some(&index));
    let Ok(mut writer) = BundleWriter::new(Vec::new(), index.plan().copied(), None) else { return };
    for number in 0..index.block_count() {
        let Ok(block) = reader.read_block(number).and_then(CompressedBlock::decompress) else {
            return;
        };
        for (place, indexed) in block.entries().enumerate() {
            assert_eq!(index.find(indexed.target, indexed.key), Some(indexed));
            let Ok(entry) = block.entry(place) else { return };
            if writer.add(indexed.target, &entry).is_err() {
                return;
            }
        }
    }
    let Ok(written) = writer.finish() else { return };
    // Another program may have filled the blocks in another way; the entries are the same.
    let keys = |index: &Index| {
        index.entries().map(|entry| (entry.target.to_owned(), *entry.key)).collect::<Vec<_>>()
    };
    assert_eq!(keys(&written.index), keys(&index));
}
