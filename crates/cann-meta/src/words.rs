//! Fields with a short list of values, which a later CANN may extend.

use std::fmt;

/// The values that a field may have.
pub trait Vocabulary: Copy + 'static {
    /// All values.
    const ALL: &'static [Self];

    /// The text in the `.json`.
    fn name(self) -> &'static str;
}

/// A known value, or another text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Word<T> {
    /// One of the values of `T`.
    Known(T),
    /// Another text.
    Other(String),
}

impl<T: Vocabulary> Word<T> {
    /// The value for `text`.
    pub fn of(text: &str) -> Self {
        match T::ALL.iter().find(|word| word.name() == text) {
            Some(word) => Self::Known(*word),
            None => Self::Other(text.to_owned()),
        }
    }

    /// The value, if known.
    pub fn known(&self) -> Option<T> {
        match self {
            Self::Known(word) => Some(*word),
            Self::Other(_) => None,
        }
    }

    /// The text in the `.json`.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Known(word) => word.name(),
            Self::Other(text) => text,
        }
    }
}

impl<T> From<T> for Word<T> {
    fn from(word: T) -> Self {
        Self::Known(word)
    }
}

impl<T: Vocabulary> fmt::Display for Word<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

macro_rules! vocabulary {
    ($(#[$docs:meta])* pub enum $Name:ident { $($(#[$word_docs:meta])* $Word:ident = $text:literal,)* }) => {
        $(#[$docs])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $Name {
            $($(#[$word_docs])* $Word,)*
        }

        impl Vocabulary for $Name {
            const ALL: &'static [Self] = &[$(Self::$Word),*];

            fn name(self) -> &'static str {
                match self {
                    $(Self::$Word => $text,)*
                }
            }
        }

        impl fmt::Display for $Name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

vocabulary! {
    /// The kind of core that a kernel runs on: `coreType`, and the older `core_type` with its own values.
    pub enum CoreType {
        /// An AI core, or a cube core.
        AiCore = "AiCore",
        /// A vector core.
        VectorCore = "VectorCore",
        /// A cube core.
        CubeCore = "CubeCore",
        /// Cube and vector cores together; `taskRation` has their numbers.
        Mix = "MIX",
        /// Both, launched from the cube side.
        MixAiCore = "MIX_AICORE",
        /// Both, launched from the vector side.
        MixVectorCore = "MIX_VECTOR_CORE",
        /// The cube side of both, as GE writes it.
        MixAic = "MIX_AIC",
        /// The vector side of both, as GE writes it.
        MixAiv = "MIX_AIV",
        /// A cube core, as `core_type` writes it.
        Aic = "AIC",
        /// A vector core, as `core_type` writes it.
        Aiv = "AIV",
    }
}

impl CoreType {
    /// Whether cube and vector cores work together.
    pub const fn is_mix(self) -> bool {
        matches!(self, Self::Mix | Self::MixAiCore | Self::MixVectorCore | Self::MixAic | Self::MixAiv)
    }
}

vocabulary! {
    /// Whether a kernel's results are bit-identical in every run: a text, not a boolean.
    pub enum Deterministic {
        /// They are.
        True = "true",
        /// They may differ.
        False = "false",
        /// The setting does not apply to the operator.
        Ignore = "ignore",
    }
}

vocabulary! {
    /// The argument of a launch for an omitted optional tensor.
    pub enum Placeholder {
        /// Nothing.
        No = "no_placeholder",
        /// A null address.
        Gen = "gen_placeholder",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip<T: Vocabulary + PartialEq + fmt::Debug>() {
        for word in T::ALL {
            assert_eq!(Word::<T>::of(word.name()), Word::Known(*word));
        }
    }

    #[test]
    fn words_are_distinct_and_others_are_kept() {
        round_trip::<CoreType>();
        round_trip::<Deterministic>();
        round_trip::<Placeholder>();
        let other = Word::<CoreType>::of("QUANTUM");
        assert_eq!((other.known(), other.as_str()), (None, "QUANTUM"));
    }
}
