//! The single values of a `.json`.

use std::fmt::{self, Write as _};

use crate::MetaError;
use crate::json::raw;
use crate::meta::record::{Reader, Value};
use crate::words::{Vocabulary, Word};

/// The number of blocks of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockDim {
    /// A fixed number of blocks.
    Fixed(u32),
    /// Decided at launch by the tiling function; `-1` in the file.
    Dynamic,
}

/// A switch. Producers write 0 and 1, or false and true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flag {
    /// `false` or `true`.
    Bool(bool),
    /// A whole number.
    Number(i64),
}

impl Flag {
    /// Whether it is on: neither false nor 0.
    pub const fn is_set(self) -> bool {
        match self {
            Self::Bool(value) => value,
            Self::Number(value) => value != 0,
        }
    }
}

/// `taskRation` (the vendor's spelling): how many cube and vector cores work together.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TaskRation {
    /// `"1:2"`.
    Ratio {
        /// Cube cores.
        cube: u32,
        /// Vector cores.
        vector: u32,
    },
    /// `"tilingKey"`: each kernel of the `kernelList` has its own.
    TilingKey,
    /// A number, which older CANN wrote and current CANN refuses.
    Number(i64),
    /// Another text.
    Other(String),
}

impl TaskRation {
    fn of(text: &str) -> Self {
        if text == "tilingKey" {
            return Self::TilingKey;
        }
        let sides = text.split_once(':').and_then(|(cube, vector)| Some((side(cube)?, side(vector)?)));
        match sides {
            Some((cube, vector)) => Self::Ratio { cube, vector },
            None => Self::Other(text.to_owned()),
        }
    }
}

/// Only digits without leading zeros, so that the text round-trips.
fn side(text: &str) -> Option<u32> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (text.len() == 1 || !text.starts_with('0'));
    plain.then(|| text.parse().ok()).flatten()
}

impl fmt::Display for TaskRation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ratio { cube, vector } => write!(f, "{cube}:{vector}"),
            Self::TilingKey => f.write_str("tilingKey"),
            Self::Number(number) => write!(f, "{number}"),
            Self::Other(text) => f.write_str(text),
        }
    }
}

impl Value for BlockDim {
    fn read(raw: &str, reader: &mut Reader) -> Result<Self, MetaError> {
        match raw::whole(raw) {
            Some(-1) => Ok(Self::Dynamic),
            Some(blocks @ 0..=65535) => Ok(Self::Fixed(blocks as u32)),
            _ => Err(reader.wrong("a whole number from -1 to 65535", raw)),
        }
    }

    fn write(&self, out: &mut String) {
        match self {
            Self::Fixed(blocks) => print(blocks, out),
            Self::Dynamic => out.push_str("-1"),
        }
    }
}

impl Value for Flag {
    fn read(raw: &str, reader: &mut Reader) -> Result<Self, MetaError> {
        let number = || raw::whole(raw).and_then(|number| i64::try_from(number).ok()).map(Self::Number);
        let flag = raw::boolean(raw).map(Self::Bool).or_else(number);
        flag.ok_or_else(|| reader.wrong("false, true or a whole number", raw))
    }

    fn write(&self, out: &mut String) {
        match self {
            Self::Bool(value) => print(value, out),
            Self::Number(value) => print(value, out),
        }
    }
}

impl Value for TaskRation {
    fn read(raw: &str, reader: &mut Reader) -> Result<Self, MetaError> {
        let number = || raw::whole(raw).and_then(|number| i64::try_from(number).ok()).map(Self::Number);
        let ration = raw::text(raw).map(|text| Self::of(&text)).or_else(number);
        ration.ok_or_else(|| reader.wrong("a string such as `1:2`, or a whole number", raw))
    }

    fn write(&self, out: &mut String) {
        match self {
            Self::Number(number) => print(number, out),
            other => other.to_string().write(out),
        }
    }
}

impl<T: Vocabulary> Value for Word<T> {
    fn read(raw: &str, reader: &mut Reader) -> Result<Self, MetaError> {
        raw::text(raw).map(|text| Self::of(&text)).ok_or_else(|| reader.wrong("a string", raw))
    }

    fn write(&self, out: &mut String) {
        self.as_str().to_owned().write(out);
    }
}

impl Value for u64 {
    fn read(raw: &str, reader: &mut Reader) -> Result<Self, MetaError> {
        let number = raw::whole(raw).and_then(|number| number.try_into().ok());
        number.ok_or_else(|| reader.wrong("a whole number from 0 to 18446744073709551615", raw))
    }

    fn write(&self, out: &mut String) {
        print(self, out);
    }
}

impl Value for i64 {
    fn read(raw: &str, reader: &mut Reader) -> Result<Self, MetaError> {
        let number = raw::whole(raw).and_then(|number| number.try_into().ok());
        number.ok_or_else(|| reader.wrong("a whole number of 64 bits", raw))
    }

    fn write(&self, out: &mut String) {
        print(self, out);
    }
}

fn print(value: impl fmt::Display, out: &mut String) {
    let written = write!(out, "{value}");
    debug_assert!(written.is_ok(), "writing to memory");
}
