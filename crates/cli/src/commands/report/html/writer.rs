//! A writer of HTML in which no text of a report becomes an element, an attribute or a script.
//!
//! Names of elements and attributes are the program's: [`Tag`] and [`Attribute`] list those that a page uses, none of which runs a
//! script or loads anything. All other text is escaped when it is written, and characters that are invisible or change the
//! direction of text are shown as escapes.

use std::fmt::{self, Display, Write};

/// The element by which a page is recognised: another one is not replaced.
const GENERATOR: &str = "<meta name=\"generator\" content=\"opkeep\">\n";

use crate::ui::text::one_line;

/// An element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tag {
    A,
    Body,
    Bdi,
    Caption,
    Data,
    Dd,
    Details,
    Div,
    Dl,
    Dt,
    Figcaption,
    Figure,
    Footer,
    H1,
    H2,
    H3,
    Head,
    Header,
    Html,
    Li,
    Main,
    Nav,
    P,
    Section,
    Span,
    Summary,
    Table,
    Tbody,
    Td,
    Th,
    Thead,
    Title,
    Tr,
    Ul,
}

impl Tag {
    fn name(self) -> &'static str {
        match self {
            Self::A => "a",
            Self::Body => "body",
            Self::Bdi => "bdi",
            Self::Caption => "caption",
            Self::Data => "data",
            Self::Dd => "dd",
            Self::Details => "details",
            Self::Div => "div",
            Self::Dl => "dl",
            Self::Dt => "dt",
            Self::Figcaption => "figcaption",
            Self::Figure => "figure",
            Self::Footer => "footer",
            Self::H1 => "h1",
            Self::H2 => "h2",
            Self::H3 => "h3",
            Self::Head => "head",
            Self::Header => "header",
            Self::Html => "html",
            Self::Li => "li",
            Self::Main => "main",
            Self::Nav => "nav",
            Self::P => "p",
            Self::Section => "section",
            Self::Span => "span",
            Self::Summary => "summary",
            Self::Table => "table",
            Self::Tbody => "tbody",
            Self::Td => "td",
            Self::Th => "th",
            Self::Thead => "thead",
            Self::Title => "title",
            Self::Tr => "tr",
            Self::Ul => "ul",
        }
    }

    /// Whether a line ends after the element, which changes nothing that is shown.
    fn ends_line(self) -> bool {
        !matches!(self, Self::A | Self::Bdi | Self::Data | Self::Span | Self::Summary | Self::Td | Self::Th)
    }
}

/// The place of an element in the page, to which links lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Id {
    /// A section or a table of which there is one.
    Named(&'static str),
    /// One of several.
    Numbered(&'static str, usize),
    /// One of several in each of several.
    Nested(&'static str, usize, usize),
}

impl Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(name) => f.write_str(name),
            Self::Numbered(name, number) => write!(f, "{name}-{number}"),
            Self::Nested(name, outer, inner) => write!(f, "{name}-{outer}-{inner}"),
        }
    }
}

/// An attribute of an element.
#[derive(Clone, Copy, Debug)]
pub(super) enum Attribute<'a> {
    Class(&'static str),
    /// A second class.
    Kind(&'static str, &'static str),
    Id(Id),
    /// A link within the page.
    Link(Id),
    /// The name of an element for those who do not see it.
    Label(&'a str),
    LabelledBy(Id),
    Role(&'static str),
    Scope(&'static str),
    /// An element that a reader of the page aloud skips, since what it shows is in a table.
    Hidden,
    /// An element that the keyboard reaches.
    Focusable,
    Lang(&'static str),
    /// The exact value of a figure.
    Value(u64),
    /// The name of a figure, for programs.
    Figure(&'static str),
    /// Beginning and width in percent of the element around.
    Span(f64, f64),
    /// Height in percent of the element around.
    Height(f64),
    /// A text that is shown beside the pointer.
    Tip(&'a str),
}

/// HTML that is being written.
#[derive(Default)]
pub(super) struct Html(String);

impl Html {
    /// Writes an element with its content.
    pub(super) fn element(
        &mut self,
        tag: Tag,
        attributes: &[Attribute<'_>],
        content: impl FnOnce(&mut Self),
    ) {
        let name = tag.name();
        self.put(format_args!("<{name}"));
        attributes.iter().for_each(|attribute| self.attribute(attribute));
        self.0.push('>');
        content(self);
        self.put(format_args!("</{name}>"));
        if tag.ends_line() {
            self.0.push('\n');
        }
    }

    /// Writes an element that has only text.
    pub(super) fn line(&mut self, tag: Tag, attributes: &[Attribute<'_>], text: impl Display) {
        self.element(tag, attributes, |html| html.text(text));
    }

    /// Writes text.
    pub(super) fn text(&mut self, text: impl Display) {
        self.escaped(&one_line(&text.to_string()));
    }

    /// Writes a name that is not the page's: its direction does not change that of the text around it.
    pub(super) fn name(&mut self, name: &str) {
        self.line(Tag::Bdi, &[], name);
    }

    /// Writes the head of the page, with the style sheet, which is a part of the program.
    pub(super) fn head(&mut self, title: &str, style: &'static str) {
        self.element(Tag::Head, &[], |html| {
            html.constant("<meta charset=\"utf-8\">\n");
            html.constant(GENERATOR);
            html.constant("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
            html.constant("<meta name=\"color-scheme\" content=\"light dark\">\n");
            html.constant("<meta name=\"referrer\" content=\"no-referrer\">\n");
            // Nothing is loaded and nothing is run, even if a text were not escaped.
            html.constant(
                "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n",
            );
            html.line(Tag::Title, &[], title);
            html.constant("<style>\n");
            html.constant(style);
            html.constant("</style>\n");
        });
    }

    /// Returns the page.
    pub(super) fn into_page(self) -> String {
        format!("<!DOCTYPE html>\n{}", self.0)
    }

    /// Whether a file that begins with `head` is a page of opkeep.
    pub(super) fn is_page(head: &[u8]) -> bool {
        head.windows(GENERATOR.len()).any(|part| part == GENERATOR.as_bytes())
    }

    fn attribute(&mut self, attribute: &Attribute<'_>) {
        match attribute {
            Attribute::Class(name) => self.pair("class", name),
            Attribute::Kind(name, kind) => self.pair("class", format_args!("{name} {kind}")),
            Attribute::Id(id) => self.pair("id", id),
            Attribute::Link(id) => self.pair("href", format_args!("#{id}")),
            Attribute::Label(text) => self.pair("aria-label", text),
            Attribute::LabelledBy(id) => self.pair("aria-labelledby", id),
            Attribute::Role(role) => self.pair("role", role),
            Attribute::Scope(scope) => self.pair("scope", scope),
            Attribute::Hidden => self.pair("aria-hidden", "true"),
            Attribute::Focusable => self.pair("tabindex", 0),
            Attribute::Lang(lang) => self.pair("lang", lang),
            Attribute::Value(value) => self.pair("value", value),
            Attribute::Figure(name) => self.pair("data-figure", name),
            Attribute::Span(left, width) => {
                self.pair("style", format_args!("left:{:.3}%;width:{:.3}%", percent(*left), percent(*width)));
            }
            Attribute::Height(height) => self.pair("style", format_args!("height:{:.3}%", percent(*height))),
            Attribute::Tip(text) => self.pair("title", text),
        }
    }

    fn pair(&mut self, name: &'static str, value: impl Display) {
        self.put(format_args!(" {name}=\""));
        self.escaped(&one_line(&value.to_string()));
        self.0.push('"');
    }

    /// Writes a text of the program's.
    fn constant(&mut self, text: &'static str) {
        self.0.push_str(text);
    }

    /// Writes a text of which no character is special in HTML, in an element and in an attribute with either quotes.
    fn escaped(&mut self, text: &str) {
        for letter in text.chars() {
            match letter {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                letter => self.0.push(letter),
            }
        }
    }

    fn put(&mut self, text: fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.0.write_fmt(text);
    }
}

/// Returns a number that is valid in a style.
fn percent(value: f64) -> f64 {
    if value.is_finite() { value.clamp(0.0, 100.0) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts that would be markup, end an attribute, or turn the text around.
    const HOSTILE: [&str; 6] = [
        "<script>alert(1)</script>",
        "\"><img src=x onerror=alert(1)>",
        "' onmouseover='alert(1)",
        "</style></title><!--",
        "&lt;b&gt; javascript:alert(1)",
        "a\u{202e}b\u{2066}c\u{200b}\r\n\0\u{1b}[31m",
    ];

    fn written(text: &str) -> String {
        let mut html = Html::default();
        html.element(Tag::Div, &[Attribute::Label(text), Attribute::Tip(text)], |html| {
            html.text(text);
            html.name(text);
        });
        html.head(text, "");
        html.into_page()
    }

    #[test]
    fn no_text_becomes_markup() {
        let plain = written("x");
        let markup = |html: &str| html.chars().filter(|letter| "<>\"".contains(*letter)).count();
        for text in HOSTILE {
            let html = written(text);
            assert_eq!(markup(&html), markup(&plain), "{html}");
            assert!(
                !html.contains('\''.to_string().as_str())
                    || html.matches('\'').count() == plain.matches('\'').count()
            );
            let is_shown = |letter: char| {
                letter == '\n' || !letter.is_control() && !"\u{202e}\u{2066}\u{200b}".contains(letter)
            };
            assert!(html.chars().all(is_shown), "{html:?}");
        }
    }

    #[test]
    fn texts_are_escaped_once() {
        let mut html = Html::default();
        html.line(Tag::Td, &[Attribute::Label("a\"b'c")], "1 < 2 & \"3\"");
        assert_eq!(html.0, "<td aria-label=\"a&quot;b&#39;c\">1 &lt; 2 &amp; &quot;3&quot;</td>");
    }

    #[test]
    fn numbers_in_styles_are_numbers() {
        let mut html = Html::default();
        html.element(Tag::Span, &[Attribute::Span(f64::NAN, 1e9)], |_| {});
        html.element(Tag::Span, &[Attribute::Height(-3.0)], |_| {});
        let expected =
            "<span style=\"left:0.000%;width:100.000%\"></span><span style=\"height:0.000%\"></span>";
        assert_eq!(html.0, expected);
    }
}
