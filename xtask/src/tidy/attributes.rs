//! The attributes of parsed items.

use syn::{Attribute, Item};

/// The attributes of an item.
pub(super) fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(it) => &it.attrs,
        Item::Enum(it) => &it.attrs,
        Item::Fn(it) => &it.attrs,
        Item::Impl(it) => &it.attrs,
        Item::Macro(it) => &it.attrs,
        Item::Mod(it) => &it.attrs,
        Item::Static(it) => &it.attrs,
        Item::Struct(it) => &it.attrs,
        Item::Trait(it) => &it.attrs,
        Item::Type(it) => &it.attrs,
        Item::Use(it) => &it.attrs,
        _ => &[],
    }
}

/// Whether an item is compiled for tests only: `#[test]`, `#[cfg(test)]`, `#[cfg(all(test, ...))]`.
pub(super) fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let Ok(list) = attribute.meta.require_list() else { return attribute.path().is_ident("test") };
        let tokens = list.tokens.to_string();
        attribute.path().is_ident("cfg") && (tokens == "test" || tokens.starts_with("all (test"))
    })
}
