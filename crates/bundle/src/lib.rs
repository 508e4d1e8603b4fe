//! Bundles: one compressed file of many cache entries, with an index that can be signed.
