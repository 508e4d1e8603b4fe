//! Objects with known fields: a macro generates type, reader and writer of each from one table.

use std::borrow::Cow;

use crate::json::raw::{self, Members};
use crate::json::{MAX_DEPTH, quoted, short, short_name};
use crate::{Json, MetaError};

const _: () = assert!(MAX_DEPTH == 32, "the message below says 32");
/// The longest accepted list: a parsed kernel takes many times its size in the file. Genuine lists have some hundred
/// items.
pub(crate) const MAX_ITEMS: usize = 1 << 15;

const _: () = assert!(MAX_ITEMS == 32_768, "the message below says 32768");
const FEW: &str = "a list of at most 32768 items";
const KEPT: &str = "a value that is nested at most 32 levels deep";

/// The type of a value in a `.json`.
pub(crate) trait Value {
    /// Reads it from text that serde_json has accepted.
    fn read(raw: &str, reader: &mut Reader) -> Result<Self, MetaError>
    where
        Self: Sized;

    /// Writes it without white space.
    fn write(&self, out: &mut String);
}

/// The reader's position in the document, and its observations.
#[derive(Default)]
pub(crate) struct Reader {
    place: Vec<Step>,
    /// The paths of repeated fields.
    pub(crate) repeated: Vec<String>,
}

enum Step {
    Field(&'static str),
    Item(usize),
}

impl Reader {
    /// Reads the field `name` of the object that is being read.
    pub(crate) fn field<T: Value>(&mut self, name: &'static str, raw: &str) -> Result<T, MetaError> {
        self.place.push(Step::Field(name));
        let value = T::read(raw, self);
        self.place.pop();
        value
    }

    /// Reads the items of a list.
    pub(crate) fn items<T: Value>(&mut self, raw: &str) -> Result<Vec<T>, MetaError> {
        let items = raw::items(raw).ok_or_else(|| self.wrong("a list", raw))?;
        if items.len() > MAX_ITEMS {
            return Err(self.wrong(FEW, raw));
        }
        let mut values = Vec::with_capacity(items.len());
        for (index, item) in items.into_iter().enumerate() {
            self.place.push(Step::Item(index));
            let value = T::read(item, self);
            self.place.pop();
            values.push(value?);
        }
        Ok(values)
    }

    pub(crate) fn members<'a>(&mut self, raw: &'a str) -> Result<Members<'a>, MetaError> {
        let members = Members::read(raw).map_err(|_| self.wrong("an object", raw))?;
        self.add_repeated(&members);
        Ok(members)
    }

    pub(crate) fn add_repeated(&mut self, members: &Members<'_>) {
        for name in &members.repeated {
            let place = self.place(Some(name));
            self.repeated.push(place);
        }
    }

    /// The value of the field `name` as spelled.
    pub(crate) fn keep(&self, name: &str, raw: &str) -> Result<Json, MetaError> {
        Json::keep(raw).ok_or_else(|| MetaError::Field {
            field: self.place(Some(name)),
            expected: KEPT,
            found: short(raw),
        })
    }

    /// The error for a missing field `name` of the current object.
    pub(crate) fn missing(&self, name: &str, object: &str) -> MetaError {
        let found = format!("no such field in {}", short(object));
        MetaError::Field { field: self.place(Some(name)), expected: "a value", found }
    }

    /// The error for a wrong current value.
    pub(crate) fn wrong(&self, expected: &'static str, raw: &str) -> MetaError {
        MetaError::Field { field: self.place(None), expected, found: short(raw) }
    }

    /// The path of the current value, or of the field `name` in it.
    fn place(&self, name: Option<&str>) -> String {
        let mut place = String::new();
        for step in &self.place {
            match step {
                Step::Field(name) => add_field(&mut place, name),
                Step::Item(index) => place.push_str(&format!("[{index}]")),
            }
        }
        if let Some(name) = name {
            add_field(&mut place, &short_name(name));
        }
        if place.is_empty() { "(document)".to_owned() } else { place }
    }
}

fn add_field(place: &mut String, name: &str) {
    if !place.is_empty() {
        place.push('.');
    }
    place.push_str(name);
}

/// Writes an object, its members sorted by name; the first of two with one name.
pub(crate) fn write_members(mut members: Vec<(&str, &dyn Value)>, out: &mut String) {
    members.sort_by_key(|(name, _)| *name);
    members.dedup_by_key(|(name, _)| *name);
    out.push('{');
    for (index, (name, value)) in members.into_iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        out.push_str(&quoted(name));
        out.push(':');
        value.write(out);
    }
    out.push('}');
}

impl Value for Json {
    fn read(raw: &str, reader: &mut Reader) -> Result<Self, MetaError> {
        Self::keep(raw).ok_or_else(|| reader.wrong(KEPT, raw))
    }

    fn write(&self, out: &mut String) {
        out.push_str(self.text());
    }
}

impl Value for String {
    fn read(raw: &str, reader: &mut Reader) -> Result<Self, MetaError> {
        raw::text(raw).map(Cow::into_owned).ok_or_else(|| reader.wrong("a string", raw))
    }

    fn write(&self, out: &mut String) {
        out.push_str(&quoted(self));
    }
}

impl<T: Value> Value for Vec<T> {
    fn read(raw: &str, reader: &mut Reader) -> Result<Self, MetaError> {
        reader.items(raw)
    }

    fn write(&self, out: &mut String) {
        out.push('[');
        for (index, item) in self.iter().enumerate() {
            if index > 0 {
                out.push(',');
            }
            item.write(out);
        }
        out.push(']');
    }
}

/// Declares an object of a `.json`. The word before each field states what happens to a value of another type:
///
/// - `needed`: refused, and so is an object without the field.
/// - `exact`: refused.
/// - `strict`: refused, but null is kept among the unknown fields.
/// - `number`: refused, but null and other numbers are kept among the unknown fields.
/// - `loose`: kept among the unknown fields.
///
/// `beside` after the table lists fields of the Rust type that are not in the file.
macro_rules! record {
    (
        $(#[$docs:meta])*
        pub struct $Name:ident {
            $($(#[$field_docs:meta])* $mode:ident $field:ident: $Type:ty = $key:literal,)*
        }
        $(beside { $($(#[$beside_docs:meta])* $beside:ident: $Beside:ty,)* })?
    ) => {
        $(#[$docs])*
        #[derive(Clone, Debug, PartialEq, Eq, Default)]
        pub struct $Name {
            $($(#[$field_docs])* pub $field: record!(@type $mode $Type),)*
            $($($(#[$beside_docs])* pub $beside: $Beside,)*)?
            /// Every other field, and known fields whose values have another type.
            pub extra: $crate::Extra,
        }

        impl $Name {
            fn of(members: &$crate::json::raw::Members<'_>, reader: &mut Reader) -> Result<Self, MetaError> {
                let mut this = Self::default();
                for (name, raw) in members.iter() {
                    match name {
                        $($key => {
                            let value = reader.field::<$Type>($key, raw);
                            match record!(@judge $mode value raw)? {
                                Some(value) => this.$field = record!(@wrap $mode value),
                                None => {
                                    this.extra.insert(name.to_owned(), reader.keep(name, raw)?);
                                }
                            }
                        })*
                        _ => {
                            this.extra.insert(name.to_owned(), reader.keep(name, raw)?);
                        }
                    }
                }
                Ok(this)
            }
        }

        impl Value for $Name {
            fn read(raw: &str, reader: &mut Reader) -> Result<Self, MetaError> {
                let members = reader.members(raw)?;
                $(record!(@look $mode $key members reader raw);)*
                Self::of(&members, reader)
            }

            fn write(&self, out: &mut String) {
                let mut members: Vec<(&str, &dyn Value)> = Vec::new();
                $(record!(@push $mode members $key self.$field);)*
                members.extend(self.extra.iter().map(|(name, value)| (name.as_str(), value as &dyn Value)));
                write_members(members, out);
            }
        }
    };
    (@type needed $Type:ty) => { $Type };
    (@type $mode:ident $Type:ty) => { Option<$Type> };
    (@judge strict $value:ident $raw:ident) => {
        if $raw == "null" { Ok(None) } else { $value.map(Some) }
    };
    (@judge number $value:ident $raw:ident) => {
        if $raw == "null" || ($value.is_err() && $crate::json::raw::is_number($raw)) { Ok(None) } else { $value.map(Some) }
    };
    (@judge loose $value:ident $raw:ident) => { Ok::<_, MetaError>($value.ok()) };
    (@judge $mode:ident $value:ident $raw:ident) => { $value.map(Some) };
    (@wrap needed $value:ident) => { $value };
    (@wrap $mode:ident $value:ident) => { Some($value) };
    (@look needed $key:literal $members:ident $reader:ident $raw:ident) => {
        if $members.get($key).is_none() {
            return Err($reader.missing($key, $raw));
        }
    };
    (@look $mode:ident $key:literal $members:ident $reader:ident $raw:ident) => {};
    (@push needed $members:ident $key:literal $value:expr) => { $members.push(($key, &$value)) };
    (@push $mode:ident $members:ident $key:literal $value:expr) => {
        if let Some(value) = &$value {
            $members.push(($key, value));
        }
    };
}

pub(crate) use record;
