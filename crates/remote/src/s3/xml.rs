//! XML, as far as S3's answers need it.

use std::fmt::Write as _;

use quick_xml::Reader;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::Event;

/// The maximum depth of elements.
const DEEPEST: usize = 16;

/// Calls `element` at the end of each element, with the names of the elements around it and its own, and with its text. The error is
/// the reason why a document is none.
pub(super) fn read(document: &[u8], mut element: impl FnMut(&[String], &str)) -> Result<(), String> {
    let document = str::from_utf8(document).map_err(|error| error.to_string())?;
    let mut reader = Reader::from_str(document);
    let (mut path, mut text, mut count): (Vec<String>, _, usize) = (Vec::new(), String::new(), 0);
    loop {
        match reader.read_event().map_err(|error| error.to_string())? {
            Event::Start(start) => {
                path.push(String::from_utf8_lossy(start.local_name().into_inner()).into_owned());
                text.clear();
                count += 1;
            }
            Event::Empty(start) => {
                path.push(String::from_utf8_lossy(start.local_name().into_inner()).into_owned());
                element(&path, "");
                path.pop();
                count += 1;
            }
            Event::End(_) => {
                element(&path, text.trim());
                path.pop();
                text.clear();
            }
            Event::Text(part) => text.push_str(&part.decode().map_err(|error| error.to_string())?),
            Event::CData(part) => text.push_str(&part.decode().map_err(|error| error.to_string())?),
            Event::GeneralRef(entity) => {
                let name = entity.decode().map_err(|error| error.to_string())?;
                match entity.resolve_char_ref().map_err(|error| error.to_string())? {
                    Some(char) => text.push(char),
                    None => match resolve_predefined_entity(&name) {
                        Some(value) => text.push_str(value),
                        // No answer of S3 has entities of its own.
                        None => write!(text, "&{name};").unwrap_or_default(),
                    },
                }
            }
            Event::Eof if path.is_empty() && count > 0 => return Ok(()),
            Event::Eof => return Err("the document has no end".to_owned()),
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_) => {}
        }
        if path.len() > DEEPEST {
            return Err(format!("elements are nested deeper than {DEEPEST}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elements(document: &str) -> Result<Vec<(String, String)>, String> {
        let mut elements = Vec::new();
        read(document.as_bytes(), |path, text| elements.push((path.join("/"), text.to_owned())))?;
        Ok(elements)
    }

    #[test]
    fn documents_are_read() {
        let document = "<?xml version='1.0'?>\n<a xmlns=\"http://x\">\n <n:b>x &amp; &#x79;<!-- no --></n:b><c/><b><![CDATA[<]]></b></a>\n";
        let expected = [("a/b", "x & y"), ("a/c", ""), ("a/b", "<"), ("a", "")];
        let expected = expected.map(|(path, text)| (path.to_owned(), text.to_owned()));
        assert_eq!(elements(document), Ok(expected.to_vec()));
    }

    #[test]
    fn other_texts_are_no_documents() {
        let deep = "<a>".repeat(100);
        for text in ["", "text", "<a>", "<a></b>", "<a", "{}", &deep, "</a>", "<a>&#xffffffff;</a>"] {
            assert!(elements(text).is_err(), "{text}");
        }
        assert!(read(b"<a>\xff</a>", |_, _| {}).is_err());
    }
}
