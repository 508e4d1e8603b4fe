//! A fast check whether a kernel's name belongs to its `.info`, without building a descriptor.
//!
//! A check of ten thousand kernels has less than a tenth of a millisecond for each descriptor. MindSpore hashes the
//! text of the file without spaces and a few members, so one pass over the bytes gives the hashed text. The name is
//! confirmed if the text has the hash in the name. Otherwise the result is open: the file may be of a generation with
//! another hash or another spelling, which [`Descriptor::named_by`](crate::Descriptor::named_by) recognises.

use crate::info::limits::MAX_INFO_BYTES;
use crate::name::foreign::ForeignName;
use crate::name::murmur;

/// Whether `info`, a file of MindSpore r1.5 or later, is the complete descriptor of the kernel named `name`.
///
/// Members that no name hashes are not checked; [`read_info`](crate::read_info) detects damage to those. False does not
/// mean that the name is wrong. Callers pass the same `buffer` for many files, so that it is allocated once.
pub fn name_matches(info: &[u8], name: &str, buffer: &mut Vec<u8>) -> bool {
    let Some(ForeignName::MindSpore { words, number, device }) = ForeignName::parse(name) else {
        return false;
    };
    if info.len() as u64 > MAX_INFO_BYTES {
        return false;
    }
    // r1.5 hashes one more list.
    [Repeats::Without, Repeats::With].into_iter().any(|repeats| {
        let texts = Texts::read(info, repeats, buffer);
        texts.is_some_and(|texts| texts.are_called(&words) && texts.say(number, device))
    })
}

/// Whether the `output_data_desc` of operators is hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Repeats {
    With,
    Without,
}

/// The hashed texts, and the functions in the name.
#[derive(Debug)]
struct Texts<'a, 'b> {
    /// The operators.
    text: &'b mut Vec<u8>,
    /// The options, after their first line.
    soc: Option<(Lines<'a>, usize)>,
    funcs: Vec<&'a [u8]>,
}

/// The indentation of an operator's members, relative to the list of operators.
const OP_MEMBER: usize = 8;

impl<'a, 'b> Texts<'a, 'b> {
    /// Extracts the texts from a file in the format of the framework's JSON library: each value on its own line,
    /// indented by four spaces a level. `None` for another format, a truncated file, or trailing data.
    fn read(info: &'a [u8], repeats: Repeats, text: &'b mut Vec<u8>) -> Option<Self> {
        text.clear();
        text.reserve(info.len());
        let (mut soc, mut funcs) = (None, Vec::new());
        let mut lines = Lines { rest: info };
        let mut is_complete = false;
        lines.next().filter(|line| line.indent == 0 && line.text == b"{")?;
        while let Some(line) = lines.next() {
            match line.key() {
                _ if is_complete => return None,
                b"SocInfo" if line.opens() => soc = Some((lines, line.indent)),
                // The name would contain the functions of both lists.
                b"op_list" if line.opens() && !text.is_empty() => return None,
                b"op_list" if line.opens() => lines.ops(line.indent, repeats, text, &mut funcs)?,
                _ => {}
            }
            is_complete = line.indent == 0;
            if is_complete && line.text != b"}" {
                return None;
            }
        }
        (is_complete && !text.is_empty()).then_some(Self { text, soc, funcs })
    }

    /// Whether `words` are the words in the name of a kernel of these functions.
    fn are_called(&self, words: &str) -> bool {
        match self.funcs[..] {
            [func] => func == words.as_bytes(),
            _ => {
                let funcs = words.strip_prefix("te_fusion_").filter(|_| !self.funcs.is_empty());
                funcs.is_some_and(|words| self.funcs.join(&b'_') == words.as_bytes())
            }
        }
    }

    /// Whether `hash` is that of the operators alone or, since r2.1, with the options, which contain the device.
    fn say(self, number: u64, device: u32) -> bool {
        let Self { text, soc, .. } = self;
        if murmur::hash(text) == number {
            return true;
        }
        let at = text.len();
        let Some(()) = soc.and_then(|(mut lines, indent)| lines.soc_info(indent, text)) else { return false };
        let device = format!("\"deviceId\":\"{device}\"");
        let says_device = || text[at..].windows(device.len()).any(|window| window == device.as_bytes());
        murmur::hash(text) == number && says_device()
    }
}

/// Adds the first `len` bytes of `source` to `text`. For a short piece it copies a block of fixed size and truncates
/// it, which is much faster than a copy of variable size.
#[inline]
fn push(text: &mut Vec<u8>, source: &[u8], len: usize) {
    const BLOCK: usize = 32;
    match source.first_chunk::<BLOCK>() {
        Some(block) if len <= BLOCK => {
            text.extend_from_slice(block);
            text.truncate(text.len() - BLOCK + len);
        }
        _ => text.extend_from_slice(&source[..len]),
    }
}

/// Removes a final comma from `text`.
fn drop_comma(text: &mut Vec<u8>) {
    text.pop_if(|last| *last == b',');
}

/// A line without its indentation.
#[derive(Clone, Copy, Debug)]
struct Line<'a> {
    indent: usize,
    /// The text with its final comma, without the line end.
    text: &'a [u8],
    /// The whole file from here.
    from: &'a [u8],
    /// The length of `"name":` if a member begins here, otherwise 0.
    name: usize,
}

impl<'a> Line<'a> {
    /// The name of the member that begins here; empty if none does. No known name contains a quote.
    #[inline]
    fn key(&self) -> &'a [u8] {
        self.text.get(1..self.name.saturating_sub(2)).unwrap_or_default()
    }

    /// Its value, or the whole line.
    fn value(&self) -> &'a [u8] {
        let value = if self.name == 0 { self.text } else { &self.text[self.name + 1..] };
        value.strip_suffix(b",").unwrap_or(value)
    }

    /// Whether further lines belong to the value.
    fn opens(&self) -> bool {
        matches!(self.text.last(), Some(b'{' | b'['))
    }

    /// Whether another value follows in the list or object.
    fn goes_on(&self) -> bool {
        self.text.last() == Some(&b',')
    }

    /// Writes the line behind others, without spaces.
    #[inline]
    fn add_to(&self, text: &mut Vec<u8>) {
        if self.name == 0 {
            return push(text, self.from, self.text.len());
        }
        push(text, self.from, self.name);
        let value = self.name + 1;
        push(text, &self.from[value..], self.text.len() - value);
    }
}

/// The rest of a file.
#[derive(Clone, Copy, Debug)]
struct Lines<'a> {
    rest: &'a [u8],
}

impl<'a> Lines<'a> {
    // A call for each line would double the time.
    #[inline(always)]
    fn next(&mut self) -> Option<Line<'a>> {
        let indent = spaces(self.rest);
        let from = &self.rest[indent..];
        if from.is_empty() {
            return None;
        }
        let name = name(from);
        // No known name contains a line end.
        let end = name + find(from.get(name..)?, b'\n');
        self.rest = from.get(end + 1..).unwrap_or_default();
        Some(Line { indent, text: &from[..end], from, name })
    }

    /// Adds the hashed members of the list of operators whose first line, indented by `base`, was just read, and the
    /// operators' functions.
    fn ops(
        &mut self,
        base: usize,
        repeats: Repeats,
        text: &mut Vec<u8>,
        funcs: &mut Vec<&'a [u8]>,
    ) -> Option<()> {
        let mut in_tensors = false;
        text.push(b'[');
        loop {
            let line = self.next()?;
            if line.indent <= base {
                line.add_to(text);
                drop_comma(text);
                return Some(());
            }
            let at_op = line.indent == base + OP_MEMBER;
            let is_left_out = match line.key() {
                b"name" => at_op || in_tensors,
                b"ori_name" | b"op_name" | b"pattern" if at_op => true,
                b"output_data_desc" if at_op => repeats == Repeats::Without,
                _ => false,
            };
            if is_left_out {
                if !self.leave_out(line)?.goes_on() {
                    drop_comma(text);
                }
                continue;
            }
            if at_op {
                in_tensors = matches!(line.key(), b"output_desc" | b"input_desc") && line.opens();
                if line.key() == b"func_name" {
                    funcs.push(line.value().strip_prefix(b"\"")?.strip_suffix(b"\"")?);
                }
            }
            line.add_to(text);
        }
    }

    /// Skips the value that begins in `line` and returns its last line.
    fn leave_out(&mut self, line: Line<'a>) -> Option<Line<'a>> {
        let mut last = line;
        while last.opens() || last.indent > line.indent {
            last = self.next()?;
        }
        Some(last)
    }

    /// Adds the object whose first line, indented by `base`, was just read.
    fn soc_info(&mut self, base: usize, text: &mut Vec<u8>) -> Option<()> {
        text.push(b'{');
        loop {
            let line = self.next()?;
            line.add_to(text);
            if line.indent <= base {
                drop_comma(text);
                return Some(());
            }
        }
    }
}

/// The length of `"name":` at the beginning of a line if a space follows, otherwise 0.
#[inline]
fn name(line: &[u8]) -> usize {
    let Some(text) = line.strip_prefix(b"\"") else { return 0 };
    let end = find(text, b'"');
    if text.get(end..).is_some_and(|rest| rest.starts_with(b"\": ")) { end + 3 } else { 0 }
}

/// The number of leading spaces of a line.
#[inline]
fn spaces(line: &[u8]) -> usize {
    let (words, rest) = line.as_chunks();
    for (at, word) in words.iter().enumerate() {
        let others = u64::from_le_bytes(*word) ^ u64::from_le_bytes([b' '; 8]);
        if others != 0 {
            return 8 * at + others.trailing_zeros() as usize / 8;
        }
    }
    8 * words.len() + rest.iter().take_while(|byte| **byte == b' ').count()
}

/// The offset of the first `byte`; the length if there is none. Matches are close, so this compares eight bytes at a
/// time without a call.
#[inline]
fn find(text: &[u8], byte: u8) -> usize {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    let (words, rest) = text.as_chunks();
    for (at, word) in words.iter().enumerate() {
        let others = u64::from_le_bytes(*word) ^ (ONES * u64::from(byte));
        // The lowest zero byte of `others` has its highest bit set here.
        let found = others.wrapping_sub(ONES) & !others & (ONES << 7);
        if found != 0 {
            return 8 * at + found.trailing_zeros() as usize / 8;
        }
    }
    8 * words.len() + rest.iter().take_while(|other| **other != byte).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read_info;

    const SQUARE: &[u8] = include_bytes!("../../../../fixtures/mindspore/square_12484080525657478220_2.info");
    const NAME: &str = "square_12484080525657478220_2";

    /// MindSpore's spelling; the documentation has another order of members.
    fn spelled() -> Vec<u8> {
        spell(&serde_json::from_slice(SQUARE).unwrap())
    }

    fn spell(value: &serde_json::Value) -> Vec<u8> {
        let mut bytes = Vec::new();
        let format = serde_json::ser::PrettyFormatter::with_indent(b"    ");
        serde::Serialize::serialize(value, &mut serde_json::Serializer::with_formatter(&mut bytes, format))
            .unwrap();
        bytes.push(b'\n');
        bytes
    }

    fn name_matches(info: &[u8], name: &str) -> bool {
        super::name_matches(info, name, &mut b"what was there before".to_vec())
    }

    #[test]
    fn a_confirmed_name_follows_from_the_descriptor() {
        let info = spelled();
        assert!(name_matches(&info, NAME));
        assert!(read_info(&info).unwrap().named_by(NAME).is_some());
        // The device is not hashed; the rest of the name is.
        assert!(name_matches(&info, "square_12484080525657478220_7"));
        for other in [
            "square_12484080525657478221_2",
            "sqrt_12484080525657478220_2",
            "square_12484080525657478220",
            "",
        ] {
            assert!(!name_matches(&info, other), "{other}");
        }
    }

    #[test]
    fn truncated_or_changed_files_are_not_confirmed() {
        let info = spelled();
        for length in 0..info.trim_ascii_end().len() {
            assert!(!name_matches(&info[..length], NAME), "{length}");
        }
        let text = String::from_utf8(info).unwrap();
        for (old, new) in [("\"Square\"", "\"Sqrt\""), ("float32", "float16"), ("-1", "1"), ("NCHW", "NHWC")]
        {
            assert!(!name_matches(text.replace(old, new).as_bytes(), NAME), "{old}");
        }
        // Members that no name hashes may have any value.
        for (old, new) in [("Default/Square-op1", "x"), ("Opaque", "ElemWise"), ("Ascend910A", "Ascend910B1")]
        {
            assert!(name_matches(text.replace(old, new).as_bytes(), NAME), "{old}");
        }
    }

    #[test]
    fn unreadable_files_are_not_confirmed() {
        let info = spelled();
        let text = String::from_utf8(info.clone()).unwrap();
        let list = text.find("        \"op_list\"").unwrap();
        let end = list + text[list..].find("\n        ]").unwrap() + "\n        ]".len();
        let twice = [&text[..end], ",\n", &text[list..]].concat();
        // The last list counts, and it has one operator.
        assert!(read_info(twice.as_bytes()).unwrap().named_by(NAME).is_some());
        let both = "te_fusion_square_square_12484080525657478220_2";
        assert!(read_info(twice.as_bytes()).unwrap().named_by(both).is_none());
        assert!(!name_matches(twice.as_bytes(), both));
        let large = [&info[..], &vec![b' '; MAX_INFO_BYTES as usize]].concat();
        for damaged in [[&info[..], b"}\n"].concat(), [b"{\n", &info[..]].concat(), info[2..].to_vec(), large]
        {
            let length = damaged.len();
            assert!(read_info(&damaged).is_err() && !name_matches(&damaged, NAME), "{length}");
        }
    }

    #[test]
    fn omitted_members_may_be_the_first_or_the_last() {
        let value = serde_json::json!({
            "SocInfo": { "deviceId": "2", "vector_fp_ceiling": "" },
            "op_list": [
                { "func_name": "add", "input_desc": [{ "format": "ND", "name": "x" }], "pattern": ["x", {}] },
                { "attr_desc": [{ "name": "y" }], "func_name": "a_name_of_more_than_a_block", "ori_name": [] },
                { "name": "z" },
                { "name": "z", "output_desc": [[{ "name": "z", "shape": [] }], "NULL: \"" ] },
            ],
        });
        let (info, mut text) = (spell(&value), Vec::new());
        let texts = Texts::read(&info, Repeats::With, &mut text).unwrap();
        assert!(texts.are_called("te_fusion_add_a_name_of_more_than_a_block"));
        for other in ["add", "add_a_name_of_more_than_a_block", "te_fusion_add", ""] {
            assert!(!texts.are_called(other), "{other}");
        }
        let (mut soc, mut options) = (texts.soc.unwrap(), Vec::new());
        soc.0.soc_info(soc.1, &mut options).unwrap();
        let ops = r#"[{"func_name":"add","input_desc":[{"format":"ND"}]},"#.to_owned()
            + r#"{"attr_desc":[{"name":"y"}],"func_name":"a_name_of_more_than_a_block"},"#
            + r#"{},{"output_desc":[[{"shape":[]}],"NULL: \""]}]"#;
        assert_eq!(String::from_utf8(text).unwrap(), ops);
        assert_eq!(String::from_utf8(options).unwrap(), r#"{"deviceId":"2","vector_fp_ceiling":""}"#);
    }

    #[test]
    fn bytes_are_found_wherever_they_are() {
        for length in 0..20 {
            let text = vec![b'\x80'; length];
            assert_eq!((find(&text, b'\x00'), find(&text, b'\x80')), (length, 0));
            let indented = [vec![b' '; length], b"!  ".to_vec()].concat();
            assert_eq!((spaces(&indented), spaces(&indented[..length])), (length, length));
            for at in 0..length {
                let mut text = text.clone();
                text[at] = b'\x01';
                text[length - 1] = b'\x01';
                assert_eq!(find(&text, b'\x01'), at, "{length}");
            }
        }
    }
}
