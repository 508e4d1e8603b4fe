//! Ports and attributes of operators, spelt out from their rows.

use super::ops::Op;

/// A port, with its element type and format in each column.
#[derive(Clone, Debug)]
pub(super) struct Port {
    pub(super) name: &'static str,
    /// `required`, `optional` or `dynamic`.
    pub(super) kind: &'static str,
    pub(super) dtypes: Vec<&'static str>,
    /// Empty, if any format will do.
    pub(super) formats: Vec<&'static str>,
}

/// An attribute.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attr {
    pub(super) name: &'static str,
    /// As the operator information spells it: `listInt`.
    pub(super) kind: &'static str,
    pub(super) default: Option<&'static str>,
}

impl Op {
    /// The inputs and the outputs.
    pub(super) fn ports(&self) -> [Vec<Port>; 2] {
        let (inputs, outputs) = self.ports.split_once("->").unwrap_or((self.ports, ""));
        [inputs, outputs].map(|side| {
            let names = side.split(',').map(str::trim).filter(|port| !port.is_empty());
            names.map(|port| self.port(port)).collect()
        })
    }

    fn port(&self, text: &'static str) -> Port {
        let (name, own) = text.split_once('=').unwrap_or((text, "-"));
        let (own_dtypes, own_formats) = own.split_once(':').unwrap_or((own, "-"));
        let (name, kind) = match name.split_at(name.len() - 1) {
            (name, "?") => (name, "optional"),
            (name, "*") => (name, "dynamic"),
            _ => (name, "required"),
        };
        let formats: Vec<&str> = self.formats.split(',').filter(|format| !format.is_empty()).collect();
        let mut port = Port { name, kind, dtypes: Vec::new(), formats: Vec::new() };
        for (row, dtype) in self.dtypes.split(',').enumerate() {
            for (column, format) in
                formats.iter().copied().map(Some).chain(formats.is_empty().then_some(None)).enumerate()
            {
                port.dtypes.push(pick(own_dtypes, row, dtype));
                port.formats.extend(format.map(|format| pick(own_formats, column, format)));
            }
        }
        port
    }

    /// The attributes, in the order in which the function takes them.
    pub(super) fn attrs(&self) -> Vec<Attr> {
        let attrs = self.attrs.split(';').map(str::trim).filter(|attr| !attr.is_empty());
        attrs
            .map(|attr| {
                let (attr, default) =
                    attr.split_once('=').map_or((attr, None), |(attr, value)| (attr, Some(value)));
                let (name, kind) = attr.split_once(':').unwrap_or((attr, "int"));
                Attr { name, kind, default }
            })
            .collect()
    }

    /// The name of its file and function.
    pub(super) fn function(&self) -> String {
        self.file.map_or_else(|| default_name(self.op_type), str::to_owned)
    }
}

/// The one that is for number `at`; `-` is the common one.
fn pick(own: &'static str, at: usize, common: &'static str) -> &'static str {
    match own {
        "-" => common,
        _ if own.contains('|') => own.split('|').nth(at).unwrap_or(common),
        one => one,
    }
}

/// The name that a type has where nothing is said: the vendor's rule, as written down from its documentation, apart
/// from that of `opkeep_ops`, which tests compare.
pub(super) fn default_name(op_type: &str) -> String {
    let letters: Vec<char> = op_type.chars().collect();
    let mut name = String::new();
    let mut glued = false;
    for (at, letter) in letters.iter().enumerate() {
        match letter {
            'a'..='z' => glued = false,
            '0'..='9' => glued = true,
            'A'..='Z' if at > 0 => {
                if !glued || letters.get(at + 1).is_some_and(char::is_ascii_lowercase) {
                    name.push('_');
                }
                glued = true;
            }
            _ => {}
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}
