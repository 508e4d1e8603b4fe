//! Whether a kernel's name follows from its `.info`, without reading all of it into a descriptor.
//!
//! Whoever checks ten thousand kernels cannot spend a tenth of a millisecond on each of their descriptors. MindSpore hashes
//! the text of the file itself, less spaces and a few members, so one pass over the bytes gives the same text. If that
//! has the hash which the name says, the name is confirmed. If not, nothing is said: the file may be of a generation that
//! hashes otherwise, or spelled otherwise, and [`Descriptor::named_by`](crate::Descriptor::named_by) knows.

use crate::borne::VendorName;
use crate::murmur;

/// Whether `info`, a file as MindSpore r1.5 or later writes it, is the descriptor of the kernel called `name`, and complete.
///
/// False says nothing.
pub fn confirms_name(info: &[u8], name: &str) -> bool {
    let Some(VendorName::MindSpore { words, number, device }) = VendorName::parse(name) else { return false };
    // r1.5 hashed one list more.
    [Twins::Without, Twins::With].into_iter().any(|twins| {
        let texts = Texts::read(info, twins);
        texts.is_some_and(|texts| texts.words() == words.as_bytes() && texts.say(number, device))
    })
}

/// Whether operators have their `output_data_desc` hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Twins {
    With,
    Without,
}

/// What is hashed, and what the name is made of.
#[derive(Debug, Default)]
struct Texts<'a> {
    ops: Vec<u8>,
    soc: Vec<u8>,
    funcs: Vec<&'a [u8]>,
}

/// How far a member of an operator is indented behind the list of operators.
const OP_MEMBER: usize = 8;

impl<'a> Texts<'a> {
    /// Takes the texts out of a file in which each value begins a line, four spaces a level, as the framework's JSON
    /// library writes it. None if this is no such file, or not all of it.
    fn read(info: &'a [u8], twins: Twins) -> Option<Self> {
        let mut texts = Self { ops: Vec::with_capacity(info.len()), ..Self::default() };
        let mut lines = Lines { rest: info };
        let mut is_complete = false;
        while let Some(line) = lines.next() {
            match line.key {
                b"SocInfo" if line.opens() => texts.soc = lines.soc_info(line.indent)?,
                b"op_list" if line.opens() => texts.read_ops(&mut lines, line.indent, twins)?,
                _ => {}
            }
            is_complete = line.indent == 0 && line.value == b"}";
        }
        (is_complete && !texts.ops.is_empty()).then_some(texts)
    }

    /// Reads the list of operators, which is indented by `base`, without what no name hashes.
    fn read_ops(&mut self, lines: &mut Lines<'a>, base: usize, twins: Twins) -> Option<()> {
        let mut in_tensors = false;
        self.ops.push(b'[');
        loop {
            let line = lines.next()?;
            if line.indent <= base {
                line.add_to(&mut self.ops);
                return Some(());
            }
            let at_op = line.indent == base + OP_MEMBER;
            let is_left_out = match line.key {
                b"name" => at_op || in_tensors,
                b"ori_name" | b"op_name" | b"pattern" => at_op,
                b"output_data_desc" => at_op && twins == Twins::Without,
                _ => false,
            };
            if is_left_out {
                lines.leave_out(&line)?;
                continue;
            }
            if at_op {
                in_tensors = matches!(line.key, b"output_desc" | b"input_desc") && line.opens();
                if line.key == b"func_name" {
                    self.funcs.push(line.value.strip_prefix(b"\"")?.strip_suffix(b"\"")?);
                }
            }
            line.add_to(&mut self.ops);
        }
    }

    fn words(&self) -> Vec<u8> {
        let prefix: &[u8] = if self.funcs.len() > 1 { b"te_fusion_" } else { b"" };
        [prefix, &self.funcs.join(&b'_')].concat()
    }

    /// Whether this is the hash: of the operators alone, or from r2.1 with the options, which say the device.
    fn say(mut self, number: u64, device: u32) -> bool {
        if murmur::hash(&self.ops) == number {
            return true;
        }
        self.ops.extend_from_slice(&self.soc);
        let device = format!("\"deviceId\":\"{device}\"");
        let says_device = || self.soc.windows(device.len()).any(|window| window == device.as_bytes());
        murmur::hash(&self.ops) == number && says_device()
    }
}

/// A line, without the comma that ends it.
#[derive(Clone, Copy, Debug)]
struct Line<'a> {
    indent: usize,
    /// The name of the member that begins here; empty if none does. No name that we know holds a quote.
    key: &'a [u8],
    /// Its value, or all that is in the line.
    value: &'a [u8],
}

impl Line<'_> {
    /// Whether further lines belong to the value.
    fn opens(&self) -> bool {
        matches!(self.value.last(), Some(b'{' | b'['))
    }

    /// Writes the line behind others, without spaces.
    fn add_to(&self, text: &mut Vec<u8>) {
        let closes = matches!(self.value.first(), Some(b'}' | b']'));
        if !closes && !matches!(text.last(), Some(b'{' | b'[')) {
            text.push(b',');
        }
        if !self.key.is_empty() {
            text.push(b'"');
            text.extend_from_slice(self.key);
            text.extend_from_slice(b"\":");
        }
        text.extend_from_slice(self.value);
    }
}

struct Lines<'a> {
    rest: &'a [u8],
}

impl<'a> Lines<'a> {
    fn next(&mut self) -> Option<Line<'a>> {
        let indent = spaces(self.rest);
        let line = &self.rest[indent..];
        if line.is_empty() {
            return None;
        }
        let end = line.iter().position(|byte| *byte == b'\n').unwrap_or(line.len());
        self.rest = line.get(end + 1..).unwrap_or_default();
        let line = line[..end].strip_suffix(b",").unwrap_or(&line[..end]);
        let (key, value) = member(line).unwrap_or((&[], line));
        Some(Line { indent, key, value })
    }

    /// Goes past the rest of the value that begins in `line`.
    fn leave_out(&mut self, line: &Line<'_>) -> Option<()> {
        let mut open = line.opens();
        while open {
            open = self.next()?.indent > line.indent;
        }
        Some(())
    }

    /// The object whose first line, indented by `base`, was just read.
    fn soc_info(&mut self, base: usize) -> Option<Vec<u8>> {
        let mut soc = vec![b'{'];
        loop {
            let line = self.next()?;
            line.add_to(&mut soc);
            if line.indent <= base {
                return Some(soc);
            }
        }
    }
}

/// The name and the value of the member in a line, if one begins there.
fn member(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let text = line.strip_prefix(b"\"")?;
    let end = text.iter().position(|byte| *byte == b'"')?;
    Some((&text[..end], text[end..].strip_prefix(b"\": ")?))
}

/// How many spaces a line begins with.
fn spaces(line: &[u8]) -> usize {
    let mut at = 0;
    while line.get(at..at + 8) == Some(b"        ") {
        at += 8;
    }
    at + line[at..].iter().take_while(|byte| **byte == b' ').count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read_info;

    const SQUARE: &[u8] = include_bytes!("../../../fixtures/mindspore/square_12484080525657478220_2.info");
    const NAME: &str = "square_12484080525657478220_2";

    /// As MindSpore spells it: the documentation has the members in another order.
    fn spelled() -> Vec<u8> {
        let value: serde_json::Value = serde_json::from_slice(SQUARE).unwrap();
        let mut bytes = Vec::new();
        let format = serde_json::ser::PrettyFormatter::with_indent(b"    ");
        serde::Serialize::serialize(&value, &mut serde_json::Serializer::with_formatter(&mut bytes, format))
            .unwrap();
        bytes.push(b'\n');
        bytes
    }

    #[test]
    fn what_is_confirmed_follows_from_the_descriptor() {
        let info = spelled();
        assert!(confirms_name(&info, NAME));
        assert!(read_info(&info).unwrap().named_by(NAME).is_some());
        // The device is not hashed; all else of the name is.
        assert!(confirms_name(&info, "square_12484080525657478220_7"));
        for other in [
            "square_12484080525657478221_2",
            "sqrt_12484080525657478220_2",
            "square_12484080525657478220",
            "",
        ] {
            assert!(!confirms_name(&info, other), "{other}");
        }
    }

    #[test]
    fn what_is_cut_off_or_changed_is_not_confirmed() {
        let info = spelled();
        for length in 0..info.trim_ascii_end().len() {
            assert!(!confirms_name(&info[..length], NAME), "{length}");
        }
        let text = String::from_utf8(info).unwrap();
        for (old, new) in [("\"Square\"", "\"Sqrt\""), ("float32", "float16"), ("-1", "1"), ("NCHW", "NHWC")]
        {
            assert!(!confirms_name(text.replace(old, new).as_bytes(), NAME), "{old}");
        }
        // What no name hashes may be anything.
        for (old, new) in [("Default/Square-op1", "x"), ("Opaque", "ElemWise"), ("Ascend910A", "Ascend910B1")]
        {
            assert!(confirms_name(text.replace(old, new).as_bytes(), NAME), "{old}");
        }
    }
}
