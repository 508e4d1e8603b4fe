//! Python as far as it takes to find imports: statements made of names, signs and texts.

/// A word of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    /// A name or keyword.
    Name(String),
    /// A sign.
    Sign(u8),
    /// The text between quotes, with its escapes as they are.
    Text(String),
    /// The same of a text that has code in it (`f"{x}"`).
    Formatted(String),
    /// A number.
    Number,
}

/// A statement, or the part of one up to its colon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Statement {
    /// How far it is indented; what stands behind a colon counts as one further.
    pub(crate) indent: usize,
    pub(crate) tokens: Vec<Token>,
}

/// A file's statements.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) statements: Vec<Statement>,
    /// Whether something has no end, or is no Python: what follows it may be misread.
    pub(crate) is_broken: bool,
}

/// Takes a file apart. Comments are left out; lines that brackets or backslashes join are one statement.
pub(crate) fn read(text: &str) -> Source {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let reader = Reader {
        text: text.as_bytes(),
        at: 0,
        depth: 0,
        indent: 0,
        inline: 0,
        tokens: Vec::new(),
        source: Source::default(),
    };
    reader.read()
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
    /// How many brackets are open.
    depth: usize,
    indent: usize,
    /// 1 behind a colon.
    inline: usize,
    tokens: Vec<Token>,
    source: Source,
}

impl Reader<'_> {
    fn read(mut self) -> Source {
        self.measure_indent();
        while let Some(&letter) = self.text.get(self.at) {
            match letter {
                b'\n' => self.end_line(),
                b'#' => self.at = self.end_of_line(),
                b'\\' => self.join_lines(),
                b'\'' | b'"' => self.read_text(letter),
                b'0'..=b'9' => self.read_number(),
                b'_' | b'a'..=b'z' | b'A'..=b'Z' | 0x80.. => self.read_name(),
                b' ' | b'\t' | b'\r' | b'\x0c' => self.at += 1,
                sign => self.read_sign(sign),
            }
        }
        if self.depth > 0 {
            self.source.is_broken = true;
        }
        self.end_statement();
        self.source
    }

    fn end_statement(&mut self) {
        if !self.tokens.is_empty() {
            let tokens = std::mem::take(&mut self.tokens);
            self.source.statements.push(Statement { indent: self.indent + self.inline, tokens });
        }
    }

    fn end_line(&mut self) {
        self.at += 1;
        if self.depth == 0 {
            self.end_statement();
            self.inline = 0;
            self.measure_indent();
        }
    }

    /// Spaces before the first word; a tab reaches to the next multiple of eight, as Python has it.
    fn measure_indent(&mut self) {
        let mut width = 0;
        while let Some(&letter) = self.text.get(self.at) {
            width = match letter {
                b' ' => width + 1,
                b'\t' => (width / 8 + 1) * 8,
                b'\x0c' => 0,
                _ => break,
            };
            self.at += 1;
        }
        self.indent = width;
    }

    fn end_of_line(&self) -> usize {
        let rest = &self.text[self.at..];
        self.at + rest.iter().position(|&letter| letter == b'\n').unwrap_or(rest.len())
    }

    fn join_lines(&mut self) {
        self.at += 1;
        if self.text.get(self.at) == Some(&b'\r') {
            self.at += 1;
        }
        match self.text.get(self.at) {
            Some(b'\n') => self.at += 1,
            None => {}
            Some(_) => self.source.is_broken = true,
        }
    }

    fn read_sign(&mut self, sign: u8) {
        self.at += 1;
        match sign {
            b'(' | b'[' | b'{' => self.depth += 1,
            b')' | b']' | b'}' => {
                if self.depth == 0 {
                    self.source.is_broken = true;
                }
                self.depth = self.depth.saturating_sub(1);
            }
            b';' if self.depth == 0 => return self.end_statement(),
            _ => {}
        }
        self.tokens.push(Token::Sign(sign));
        if sign == b':' && self.depth == 0 {
            self.end_statement();
            self.inline = 1;
        }
    }

    fn read_name(&mut self) {
        let begin = self.at;
        let in_name = |letter: &u8| letter.is_ascii_alphanumeric() || *letter == b'_' || *letter >= 0x80;
        while self.text.get(self.at).is_some_and(in_name) {
            self.at += 1;
        }
        let name = String::from_utf8_lossy(&self.text[begin..self.at]).into_owned();
        self.tokens.push(Token::Name(name));
    }

    fn read_number(&mut self) {
        let in_number = |letter: &u8| letter.is_ascii_alphanumeric() || matches!(letter, b'_' | b'.');
        while self.text.get(self.at).is_some_and(in_number) {
            self.at += 1;
        }
        self.tokens.push(Token::Number);
    }

    fn read_text(&mut self, quote: u8) {
        // Letters right before the quote say how the text is spelt.
        let prefix =
            self.text[..self.at].iter().rev().take_while(|letter| letter.is_ascii_alphabetic()).count();
        let prefix = &self.text[self.at - prefix..self.at];
        let is_prefix = prefix.len() <= 2
            && prefix.iter().all(|letter| b"rbuft".contains(&letter.to_ascii_lowercase()))
            && matches!(self.tokens.last(), Some(Token::Name(name)) if name.as_bytes() == prefix);
        if is_prefix {
            self.tokens.pop();
        }
        let is_code = is_prefix && prefix.iter().any(|letter| b"ftFT".contains(letter));
        let triple = self.text[self.at..].starts_with(&[quote; 3]);
        let width = if triple { 3 } else { 1 };
        let begin = self.at + width;
        let mut at = begin;
        let end = loop {
            match self.text.get(at) {
                None => break None,
                Some(b'\n') if !triple => break None,
                Some(b'\\') => at += 1,
                Some(&letter) if letter == quote && self.text[at..].starts_with(&[quote; 3][..width]) => {
                    break Some(at);
                }
                Some(_) => {}
            }
            at += 1;
        };
        let Some(end) = end else {
            self.source.is_broken = true;
            self.at = at.min(self.text.len());
            return;
        };
        self.at = end + width;
        let content = String::from_utf8_lossy(&self.text[begin..end]).into_owned();
        self.tokens.push(if is_code { Token::Formatted(content) } else { Token::Text(content) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<String> {
        let token = |token: &Token| match token {
            Token::Name(name) => name.clone(),
            Token::Sign(sign) => char::from(*sign).to_string(),
            Token::Text(text) => format!("<{text}>"),
            Token::Formatted(text) => format!("<<{text}>>"),
            Token::Number => "0".to_owned(),
        };
        let source = read(text);
        assert!(!source.is_broken, "{text}");
        let statement = |statement: &Statement| {
            let tokens: Vec<String> = statement.tokens.iter().map(token).collect();
            format!("{} {}", statement.indent, tokens.join(" "))
        };
        source.statements.iter().map(statement).collect()
    }

    #[test]
    fn comments_and_texts_are_no_code() {
        let text = "# import a\n\"\"\"\nimport b # '\n\"\"\"\nx = 'import c' # \"\n'''import d'''; y\nrb'\\'import e'\n";
        assert_eq!(
            shown(text),
            ["0 <\nimport b # '\n>", "0 x = <import c>", "0 <import d>", "0 y", "0 <\\'import e>"]
        );
    }

    #[test]
    fn lines_are_joined() {
        assert_eq!(shown("a \\\n  b\nc(\n  d, # e\n  f)\n g"), ["0 a b", "0 c ( d , f )", "1 g"]);
        assert_eq!(shown("a\\\r\nb\r\n\tc"), ["0 a b", "8 c"]);
    }

    #[test]
    fn text_after_a_colon_is_a_statement() {
        assert_eq!(shown("if x: a; b\nc"), ["0 if x :", "1 a", "1 b", "0 c"]);
        assert_eq!(shown("d = {1: 2}"), ["0 d = { 0 : 0 }"]);
    }

    #[test]
    fn quotes_are_matched() {
        assert_eq!(shown("'''a''b''' + \"c\\\"d\" + ''"), ["0 <a''b> + <c\\\"d> + <>"]);
        assert_eq!(shown("buffer'x' f'{y}'"), ["0 buffer <x> <<{y}>>"]);
    }

    #[test]
    fn unterminated_text_is_noticed() {
        for text in ["a\n'b\nc", "'''\n\n", "f(\n", ")", "a \\ b"] {
            assert!(read(text).is_broken, "{text}");
        }
        assert!(!read("a \\").is_broken);
    }
}
