//! The header of a NumPy file: a Python dictionary, of which only the subset that NumPy writes is read.

use crate::error::NpyError;

/// The content of a header.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// The element type.
    pub(crate) descr: String,
    /// Whether the order is column-major.
    pub(crate) fortran_order: bool,
    pub(crate) shape: Vec<i64>,
}

/// Reads a header.
pub(crate) fn parse(text: &[u8]) -> Result<Header, NpyError> {
    let mut parser = Parser { text, at: 0 };
    let (mut descr, mut order, mut shape) = (None, None, None);
    parser.expect(b"{", "`{`")?;
    while !parser.eat(b"}") {
        let at = parser.at;
        let once = |is_new: bool| if is_new { Ok(()) } else { Err(wrong(at, "each key once")) };
        let key = parser.string("a key")?;
        parser.expect(b":", "`:`")?;
        match key {
            b"descr" => once(descr.replace(parser.descr()?).is_none())?,
            b"fortran_order" => once(order.replace(parser.boolean()?).is_none())?,
            b"shape" => once(shape.replace(parser.shape()?).is_none())?,
            _ => return Err(wrong(at, "`descr`, `fortran_order` or `shape`")),
        }
        if !parser.eat(b",") {
            parser.expect(b"}", "`,` or `}`")?;
            break;
        }
    }
    parser.skip_space();
    match (descr, order, shape) {
        _ if parser.at != text.len() => Err(wrong(parser.at, "the end")),
        (Some(descr), Some(fortran_order), Some(shape)) => Ok(Header { descr, fortran_order, shape }),
        _ => Err(wrong(parser.at, "all of `descr`, `fortran_order` and `shape`")),
    }
}

fn wrong(at: usize, expected: &'static str) -> NpyError {
    NpyError::Header { at, expected }
}

struct Parser<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a [u8] {
        &self.text[self.at..]
    }

    fn skip_space(&mut self) {
        self.at += self.rest().iter().take_while(|byte| b" \t\r\n".contains(byte)).count();
    }

    /// Skips `token` if it is next; returns whether it was.
    fn eat(&mut self, token: &[u8]) -> bool {
        self.skip_space();
        let is_next = self.rest().starts_with(token);
        self.at += if is_next { token.len() } else { 0 };
        is_next
    }

    fn expect(&mut self, token: &[u8], expected: &'static str) -> Result<(), NpyError> {
        if self.eat(token) { Ok(()) } else { Err(wrong(self.at, expected)) }
    }

    fn string(&mut self, expected: &'static str) -> Result<&'a [u8], NpyError> {
        let quote: &[u8] = if self.eat(b"'") { b"'" } else { b"\"" };
        if quote == b"\"" {
            self.expect(quote, expected)?;
        }
        let length = self.rest().iter().take_while(|byte| **byte != quote[0] && **byte != b'\\').count();
        let string = &self.rest()[..length];
        self.at += length;
        if self.rest().first() != Some(&quote[0]) {
            return Err(wrong(self.at, "the end of the text"));
        }
        self.at += 1;
        Ok(string)
    }

    /// A record has a list here, and is not a tensor.
    fn descr(&mut self) -> Result<String, NpyError> {
        let at = self.at;
        let descr = self.string("an element type in quotes")?;
        std::str::from_utf8(descr).map(str::to_owned).map_err(|_| wrong(at, "text"))
    }

    fn boolean(&mut self) -> Result<bool, NpyError> {
        if self.eat(b"True") {
            return Ok(true);
        }
        self.expect(b"False", "`True` or `False`").map(|()| false)
    }

    /// A tuple: `()`, `(3,)`, `(2, 3)`.
    fn shape(&mut self) -> Result<Vec<i64>, NpyError> {
        let mut shape = Vec::new();
        self.expect(b"(", "a shape in parentheses")?;
        while !self.eat(b")") {
            shape.push(self.number()?);
            // Python 2 wrote long numbers in this form.
            self.eat(b"L");
            if !self.eat(b",") {
                self.expect(b")", "`,` or `)`")?;
                break;
            }
        }
        Ok(shape)
    }

    fn number(&mut self) -> Result<i64, NpyError> {
        self.skip_space();
        let digits = self.rest().iter().take_while(|byte| byte.is_ascii_digit()).count();
        let number = std::str::from_utf8(&self.rest()[..digits]).ok().and_then(|text| text.parse().ok());
        let number = number.ok_or_else(|| wrong(self.at, "a size below 2^63"))?;
        self.at += digits;
        Ok(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(descr: &str, fortran_order: bool, shape: &[i64]) -> Header {
        Header { descr: descr.to_owned(), fortran_order, shape: shape.to_vec() }
    }

    #[test]
    fn headers_that_numpy_writes() {
        let cases = [
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (), }   \n", header("<f4", false, &[])),
            ("{'descr': '|u1', 'fortran_order': True, 'shape': (3,), }\n", header("|u1", true, &[3])),
            ("{'descr': '>i2', 'fortran_order': False, 'shape': (2, 3)}", header(">i2", false, &[2, 3])),
            ("{\"shape\":(2L,0L),\"fortran_order\":True,\"descr\":\"<f8\"}", header("<f8", true, &[2, 0])),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(text.as_bytes()).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn headers_that_are_none() {
        let cases = [
            ("", 0, "`{`"),
            ("[]", 0, "`{`"),
            ("{'descr': '<f4', 'fortran_order': False}", 40, "all of"),
            ("{'descr': '<f4', 'descr': '<f4'}", 17, "each key once"),
            ("{'descr': [('a', '<f4')]}", 10, "an element type"),
            ("{'other': 1}", 1, "`descr`, "),
            ("{'descr': '<f4", 14, "the end of the text"),
            ("{'descr': '\\x41'}", 11, "the end of the text"),
            ("{'fortran_order': 1}", 18, "`True` or"),
            ("{'shape': 3}", 10, "a shape"),
            ("{'shape': (3 4)}", 13, "`,` or `)`"),
            ("{'shape': (-3,)}", 11, "a size"),
            ("{'shape': (9223372036854775808,)}", 11, "a size"),
            ("{'shape': (3,", 13, "a size"),
            ("{'descr': '<f4', 'fortran_order': True, 'shape': ()} x", 53, "the end"),
        ];
        for (text, at, expected) in cases {
            match parse(text.as_bytes()) {
                Err(NpyError::Header { at: found, expected: stated }) => {
                    assert!(found == at && stated.starts_with(expected), "{text}: byte {found}: {stated}");
                }
                other => panic!("{text}: {other:?}"),
            }
        }
    }
}
