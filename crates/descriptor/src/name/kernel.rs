//! Kernel names.

use std::fmt;

use crate::key::parts::Key;
use crate::model::job::Job;

/// The name of a kernel: the stem of its files, and the beginning of its symbol.
///
/// `{func}_{u64}`, or `te_fusion_{func}_{func}_{u64}` for several fused operators, where the number is the first 64
/// bits of the key in decimal. It matches `[A-Za-z0-9_]+`, has at most 200 bytes, and is the same for every rank.
/// Frameworks' names, from [`KernelName::mindspore`], follow the frameworks' rules and may be slightly longer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KernelName(String);

/// The bytes available for the functions' names: 200, less the longest number, its underscore, `_more` and the prefix.
const FUNCS_BYTES: usize = 200 - 21 - "_more".len() - "te_fusion_".len();

impl KernelName {
    /// The name of the kernel of `job` with the key `key`.
    pub fn new(job: &Job, key: &Key) -> Self {
        let mut funcs = String::new();
        for op in &job.ops {
            let func: String =
                op.func_name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
            let separator = if funcs.is_empty() { "" } else { "_" };
            if funcs.len() + separator.len() + func.len() > FUNCS_BYTES {
                let room = FUNCS_BYTES - funcs.len();
                if funcs.is_empty() {
                    funcs.push_str(&func[..room.min(func.len())]);
                }
                funcs.push_str("_more");
                break;
            }
            funcs.push_str(separator);
            funcs.push_str(&func);
        }
        let prefix = match job.ops.len() {
            // A symbol must not begin with a digit.
            0 | 1 if funcs.starts_with(|first: char| first.is_ascii_digit()) => "_",
            0 | 1 => "",
            _ => "te_fusion_",
        };
        Self(format!("{prefix}{funcs}_{}", key.digest().prefix_u64()))
    }

    /// The longest vendor's name in bytes: with a suffix, it is still a valid file name.
    pub(crate) const MAX_VENDOR_BYTES: usize = 240;

    /// A vendor's name, which may exceed 200 bytes. It matches `[A-Za-z0-9_]+` as well.
    ///
    /// # Errors
    /// `name`, if it is none.
    pub(crate) fn from_vendor(name: String) -> Result<Self, String> {
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if name.is_empty() || name.len() > Self::MAX_VENDOR_BYTES || !name.bytes().all(is_word) {
            return Err(name);
        }
        Ok(Self(name))
    }

    /// The symbol of the kernel when its shapes are static.
    pub fn symbol(&self) -> String {
        format!("{self}__kernel0")
    }

    /// Whether `symbol` is a kernel named `name`: the name itself, or the name, an underscore and a suffix.
    pub fn owns(name: &str, symbol: &str) -> bool {
        symbol.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for KernelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_only_begins_alike_is_another() {
        for own in ["add_1", "add_1__kernel0", "add_1_0_mix_aic"] {
            assert!(KernelName::owns("add_1", own), "{own}");
        }
        for other in ["add_12__kernel0", "add_10", "add_", "sub_1", ""] {
            assert!(!KernelName::owns("add_1", other), "{other}");
        }
    }
}
