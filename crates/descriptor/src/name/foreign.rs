//! Kernel names of other programs.

use std::fmt;

/// A parsed kernel name whose form identifies the program that made it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ForeignName {
    /// `{words}_{number}_{device}`, from MindSpore: `square_12484080525657478220_2`, `te_fusion_add_relu_7_0`.
    MindSpore {
        /// The operator's type or function; for several operators, all functions after `te_fusion_`.
        words: String,
        /// The hash.
        number: u64,
        /// The device's id.
        device: u32,
    },
    /// `{words}_{number}`, from AKG or opkeep: `Fused_Add_fusion_15759721826023052688`.
    Numbered {
        /// The text before the number.
        words: String,
        /// The hash.
        number: u64,
    },
    /// `te_{words}_{hash}`, from CANN: `te_mul_` and 64 hexadecimal digits.
    Cann {
        /// The operator's type in lower case; for several operators, all functions after `fused_op_`.
        words: String,
        /// SHA-256 of the request, in hexadecimal digits.
        hash: String,
        /// The text after the hash: `pre` for a precompile, or the number of a tuning round.
        suffix: Option<String>,
    },
}

impl ForeignName {
    /// Parses `name`; `None` if it has none of these forms.
    pub fn parse(name: &str) -> Option<Self> {
        cann(name).or_else(|| numbered(name))
    }

    /// The text before the number or the hash.
    pub fn words(&self) -> &str {
        match self {
            Self::MindSpore { words, .. } | Self::Numbered { words, .. } | Self::Cann { words, .. } => words,
        }
    }

    /// The hash of 64 bits, if it has one.
    pub fn number(&self) -> Option<u64> {
        match self {
            Self::MindSpore { number, .. } | Self::Numbered { number, .. } => Some(*number),
            Self::Cann { .. } => None,
        }
    }

    /// The device's id, if it has one.
    pub fn device(&self) -> Option<u32> {
        match self {
            Self::MindSpore { device, .. } => Some(*device),
            Self::Numbered { .. } | Self::Cann { .. } => None,
        }
    }
}

impl fmt::Display for ForeignName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MindSpore { device, .. } => write!(f, "a name of MindSpore, for device {device}"),
            Self::Numbered { .. } => f.write_str("a name of AKG or opkeep"),
            Self::Cann { .. } => f.write_str("a name of CANN"),
        }
    }
}

fn numbered(name: &str) -> Option<ForeignName> {
    let (rest, last) = name.rsplit_once('_')?;
    // A device's id is small; only one in four billion of AKG's hashes is.
    let before = rest.rsplit_once('_').and_then(|(words, number)| Some((words, decimal(number)?)));
    let device = decimal(last).and_then(|device| u32::try_from(device).ok());
    let parsed = match (before, device) {
        (Some((words, number)), Some(device)) => {
            ForeignName::MindSpore { words: words.to_owned(), number, device }
        }
        _ => ForeignName::Numbered { words: rest.to_owned(), number: decimal(last)? },
    };
    (!parsed.words().is_empty()).then_some(parsed)
}

/// A number without sign or leading zeros.
fn decimal(text: &str) -> Option<u64> {
    let canonical = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    text.parse().ok().filter(|_| canonical)
}

fn cann(name: &str) -> Option<ForeignName> {
    const HASH_DIGITS: usize = 64;
    let rest = name.strip_prefix("te_")?;
    let is_hash = |part: &str| {
        part.len() == HASH_DIGITS && part.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    };
    let (words, last) = rest.rsplit_once('_')?;
    let (words, hash, suffix) = if is_hash(last) {
        (words, last, None)
    } else {
        let (words, hash) = words.rsplit_once('_')?;
        let known = last == "pre" || decimal(last).is_some();
        (words, hash, Some(last.to_owned()).filter(|_| known && is_hash(hash))?.into())
    };
    let cann = ForeignName::Cann { words: words.to_owned(), hash: hash.to_owned(), suffix };
    (!words.is_empty()).then_some(cann)
}
