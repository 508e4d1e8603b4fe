//! Fields whose texts come from a short list, which a later CANN may lengthen.

use std::fmt;

/// A list of words that a field may hold.
pub trait Vocabulary: Copy + 'static {
    /// All of them.
    const ALL: &'static [Self];

    /// The word in the `.json`.
    fn name(self) -> &'static str;
}

/// A word that is known, or a text that is not.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Word<T> {
    /// One of the words of `T`.
    Known(T),
    /// Another text.
    Other(String),
}

impl<T: Vocabulary> Word<T> {
    /// The word that `text` is.
    pub fn of(text: &str) -> Self {
        match T::ALL.iter().find(|word| word.name() == text) {
            Some(word) => Self::Known(*word),
            None => Self::Other(text.to_owned()),
        }
    }

    /// The word, if it is known.
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
    /// What kind of core a kernel runs on: `coreType`, and the older `core_type` with words of its own.
    pub enum CoreType {
        /// A core that multiplies matrices, or one that does everything.
        AiCore = "AiCore",
        /// A vector core.
        VectorCore = "VectorCore",
        /// A cube core.
        CubeCore = "CubeCore",
        /// Cube and vector cores together; `taskRation` says how many of each.
        Mix = "MIX",
        /// Both, launched from the cube side.
        MixAiCore = "MIX_AICORE",
        /// Both, launched from the vector side.
        MixVectorCore = "MIX_VECTOR_CORE",
        /// The cube side of both, in GE's words.
        MixAic = "MIX_AIC",
        /// The vector side of both, in GE's words.
        MixAiv = "MIX_AIV",
        /// A cube core, in the words of `core_type`.
        Aic = "AIC",
        /// A vector core, in the words of `core_type`.
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
    /// Whether a kernel gives the same bits every time: a text, not a boolean.
    pub enum Deterministic {
        /// It does.
        True = "true",
        /// It may not.
        False = "false",
        /// The operator does not care.
        Ignore = "ignore",
    }
}

vocabulary! {
    /// What stands in a launch's argument list for an optional tensor that is not given.
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

    fn come_back<T: Vocabulary + PartialEq + fmt::Debug>() {
        for word in T::ALL {
            assert_eq!(Word::<T>::of(word.name()), Word::Known(*word));
        }
    }

    #[test]
    fn words_are_distinct_and_others_are_kept() {
        come_back::<CoreType>();
        come_back::<Deterministic>();
        come_back::<Placeholder>();
        let other = Word::<CoreType>::of("QUANTUM");
        assert_eq!((other.known(), other.as_str()), (None, "QUANTUM"));
    }
}
