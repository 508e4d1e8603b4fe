//! Counts the public names of each library. It only prints them, and never fails.

use std::collections::BTreeSet;
use std::path::Path;

use syn::{Item, UseTree, Visibility};

use crate::disk;

pub(crate) fn public_items(args: &[String]) -> Result<(), String> {
    let metadata = disk::metadata()?;
    let root = metadata["workspace_root"].as_str().ok_or("`cargo metadata` names no workspace root")?;
    let root = Path::new(root);
    let files = disk::files(root)?;
    for lib in files.iter().filter(|path| path.starts_with("crates/") && path.ends_with("/src/lib.rs")) {
        let dir = lib.trim_end_matches("/lib.rs");
        let mut names = BTreeSet::new();
        collect(root, lib, dir, "", &mut names)?;
        let name = dir.trim_start_matches("crates/").trim_end_matches("/src");
        println!("{:6}  {name}", names.len());
        if args.iter().any(|arg| arg == name) {
            names.iter().for_each(|name| println!("          {name}"));
        }
    }
    Ok(())
}

/// Adds the public names of the module in `file`, whose children are in `dir`.
fn collect(
    root: &Path,
    file: &str,
    dir: &str,
    module: &str,
    names: &mut BTreeSet<String>,
) -> Result<(), String> {
    let text = String::from_utf8_lossy(&disk::bytes(root, file)?).into_owned();
    let parsed = syn::parse_file(&text).map_err(|error| format!("`{file}`: {error}"))?;
    for item in &parsed.items {
        let (vis, ident) = match item {
            Item::Const(it) => (&it.vis, &it.ident),
            Item::Enum(it) => (&it.vis, &it.ident),
            Item::Fn(it) => (&it.vis, &it.sig.ident),
            Item::Static(it) => (&it.vis, &it.ident),
            Item::Struct(it) => (&it.vis, &it.ident),
            Item::Trait(it) => (&it.vis, &it.ident),
            Item::Type(it) => (&it.vis, &it.ident),
            Item::Use(it) if is_public(&it.vis) => {
                imported(&it.tree, module, names);
                continue;
            }
            Item::Mod(it) if is_public(&it.vis) => {
                let inside = format!("{module}{}::", it.ident);
                let below = format!("{dir}/{}", it.ident);
                let flat = format!("{below}.rs");
                let is_flat = disk::text_if_exists(root, &flat)?.is_some();
                let file = if is_flat { flat } else { format!("{below}/mod.rs") };
                if it.content.is_none() {
                    collect(root, &file, &below, &inside, names)?;
                }
                continue;
            }
            _ => continue,
        };
        if is_public(vis) {
            names.insert(format!("{module}{ident}"));
        }
    }
    Ok(())
}

fn is_public(vis: &Visibility) -> bool {
    matches!(vis, Visibility::Public(_))
}

fn imported(tree: &UseTree, module: &str, names: &mut BTreeSet<String>) {
    match tree {
        UseTree::Path(it) => imported(&it.tree, module, names),
        UseTree::Group(it) => it.items.iter().for_each(|tree| imported(tree, module, names)),
        UseTree::Name(it) => drop(names.insert(format!("{module}{}", it.ident))),
        UseTree::Rename(it) => drop(names.insert(format!("{module}{}", it.rename))),
        UseTree::Glob(_) => drop(names.insert(format!("{module}*"))),
    }
}
