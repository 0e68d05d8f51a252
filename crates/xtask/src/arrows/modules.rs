//! Arrows between the modules of a crate, from its source.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use syn::visit::Visit;

use super::Arrows;

/// Which of a crate's modules uses which. A module is what `lib.rs` declares, with all below it; tests do
/// not count.
///
/// # Errors
/// When a file cannot be read or parsed.
pub(super) fn arrows(source: &Path) -> Result<Arrows> {
    let files = files(source)?;
    let modules: BTreeSet<String> = files.iter().filter_map(|file| top(file)).collect();
    let mut arrows: Arrows = modules
        .iter()
        .map(|module| (module.clone(), BTreeSet::new()))
        .collect();
    for file in &files {
        let Some(module) = top(file) else {
            continue;
        };
        let path = source.join(file);
        let reading = || format!("reading {}", path.display());
        let text = fs::read_to_string(&path).with_context(reading)?;
        let parsed = syn::parse_file(&text).with_context(reading)?;
        let mut uses = Uses {
            within: within(file),
            found: BTreeSet::new(),
        };
        uses.visit_file(&parsed);
        uses.found
            .retain(|to| *to != module && modules.contains(to));
        arrows.entry(module).or_default().append(&mut uses.found);
    }
    Ok(arrows)
}

/// Files that take others in by a path out of their own crate.
///
/// # Errors
/// When a file cannot be read.
pub(super) fn foreign_paths(crates: &Path) -> Result<Vec<String>> {
    let mut faults = Vec::new();
    for entry in fs::read_dir(crates)? {
        let root = entry?.path();
        for file in files_below(&root, &root)? {
            let text = fs::read_to_string(root.join(&file))?;
            let paths = text.lines().filter_map(|line| {
                let path = line.trim().strip_prefix("#[path = \"")?;
                path.strip_suffix("\"]")
            });
            let depth = file.components().count() - 1;
            let leaves = |path: &&str| path.split('/').filter(|part| *part == "..").count() > depth;
            faults.extend(paths.filter(leaves).map(|path| {
                let file = root.join(&file);
                format!("{} takes in {path} of another crate", file.display())
            }));
        }
    }
    Ok(faults)
}

/// The files of a crate's source, without those of tests, by their paths below it.
fn files(source: &Path) -> Result<Vec<PathBuf>> {
    let root = fs::read_to_string(source.join("lib.rs")).context("reading lib.rs")?;
    let root = syn::parse_file(&root).context("parsing lib.rs")?;
    let modules = root.items.iter().filter_map(|item| match item {
        syn::Item::Mod(module) if is_for_tests(&module.attrs) => Some(module.ident.to_string()),
        _ => None,
    });
    let for_tests: Vec<String> = modules.chain(["tests".to_owned()]).collect();
    let is_test = |file: &PathBuf| {
        let names = file.with_extension("");
        names
            .iter()
            .any(|name| for_tests.iter().any(|test| name == test.as_str()))
    };
    let mut files = files_below(source, source)?;
    files.retain(|file| !is_test(file));
    Ok(files)
}

fn files_below(root: &Path, directory: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            files.append(&mut files_below(root, &path)?);
        } else if path.extension().is_some_and(|end| end == "rs") {
            files.push(path.strip_prefix(root)?.to_owned());
        }
    }
    Ok(files)
}

/// The module that a file belongs to; `None` for the root's.
fn top(file: &Path) -> Option<String> {
    let first = file.components().next()?.as_os_str().to_str()?;
    let name = first.strip_suffix(".rs").unwrap_or(first);
    (!["lib", "main"].contains(&name)).then(|| name.to_owned())
}

/// The modules that a file's items are in, the outermost first.
fn within(file: &Path) -> Vec<String> {
    let parts = file.with_extension("");
    let names = parts.iter().map(|part| part.to_string_lossy().into_owned());
    names.filter(|name| name != "mod").collect()
}

/// The top modules that a file names.
struct Uses {
    within: Vec<String>,
    found: BTreeSet<String>,
}

impl Uses {
    /// Takes a path's first names.
    fn path(&mut self, names: &[String]) {
        let [first, rest @ ..] = names else {
            return;
        };
        match first.as_str() {
            "crate" => self.found.extend(rest.first().cloned()),
            "super" => {
                let up = names.iter().take_while(|name| *name == "super").count();
                if up >= self.within.len() {
                    self.found.extend(names.get(up).cloned());
                }
            }
            _ => {}
        }
    }

    fn tree(&mut self, tree: &syn::UseTree, before: &mut Vec<String>) {
        match tree {
            syn::UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.tree(&path.tree, before);
                before.pop();
            }
            syn::UseTree::Group(group) => {
                for item in &group.items {
                    self.tree(item, before);
                }
            }
            syn::UseTree::Name(name) => self.leaf(&name.ident, before),
            syn::UseTree::Rename(name) => self.leaf(&name.ident, before),
            syn::UseTree::Glob(_) => self.path(&before.clone()),
        }
    }

    fn leaf(&mut self, name: &syn::Ident, before: &[String]) {
        let path = [before, &[name.to_string()]].concat();
        self.path(&path);
    }
}

impl<'ast> Visit<'ast> for Uses {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if !is_for_tests(&item.attrs) {
            self.tree(&item.tree, &mut Vec::new());
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names = path.segments.iter().map(|part| part.ident.to_string());
        self.path(&names.collect::<Vec<_>>());
        syn::visit::visit_path(self, path);
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if is_for_tests(&item.attrs) {
            return;
        }
        self.within.push(item.ident.to_string());
        syn::visit::visit_item_mod(self, item);
        self.within.pop();
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !is_for_tests(&item.attrs) {
            syn::visit::visit_item_fn(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if !is_for_tests(&item.attrs) {
            syn::visit::visit_item_impl(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_for_tests(&item.attrs) {
            syn::visit::visit_impl_item_fn(self, item);
        }
    }
}

fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let list = attribute.meta.require_list();
        attribute.path().is_ident("cfg") && list.is_ok_and(|list| list.tokens.to_string() == "test")
    })
}

#[cfg(test)]
mod tests {
    use super::{Uses, Visit};
    use std::collections::BTreeSet;

    #[test]
    fn names_are_found_wherever_they_stand() {
        let text = r"
            use crate::a::{self, b};
            use crate::{c::d, e};
            use super::f;
            fn uses(i: crate::i::It) { crate::j::k(super::l::m) }
            mod inner { use super::super::n::o; use super::p; }
            #[cfg(test)] mod tests { use crate::q; }
            #[cfg(test)] use crate::r;
        ";
        let mut uses = Uses {
            within: vec!["serve".to_owned()],
            found: BTreeSet::new(),
        };
        uses.visit_file(&syn::parse_str(text).unwrap());
        let found: Vec<&str> = uses.found.iter().map(String::as_str).collect();
        assert_eq!(found, ["a", "c", "e", "f", "i", "j", "l", "n"]);
    }
}
