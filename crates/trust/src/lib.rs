//! Signing keys, lists of trusted keys, and signatures over the content of cache entries.
