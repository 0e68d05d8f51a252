//! The arrows between crates, and between the modules of `core` and `edge`.

mod crates;
mod modules;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Result, ensure};

/// A node, and the nodes that it uses.
type Arrows = BTreeMap<String, BTreeSet<String>>;

/// Crates whose modules use each other in one direction alone.
const WITHOUT_CIRCLES: [&str; 2] = ["core", "edge"];

/// Prints the arrows.
///
/// # Errors
/// When a crate uses another that it may not, or modules use each other in a circle.
pub(crate) fn run() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut faults = Vec::new();
    let arrows = crates::arrows(&root)?;
    print("crate", &arrows);
    faults.extend(crates::forbidden(&arrows));
    for name in WITHOUT_CIRCLES {
        let arrows = modules::arrows(&root.join("crates").join(name).join("src"))?;
        print(&format!("module of {name}"), &arrows);
        let circle = circle(&arrows).map(|circle| circle.join(" -> "));
        faults.extend(circle.map(|circle| format!("modules of {name} use each other: {circle}")));
    }
    faults.extend(modules::foreign_paths(&root.join("crates"))?);
    ensure!(faults.is_empty(), "{}", faults.join("\n"));
    Ok(())
}

fn print(what: &str, arrows: &Arrows) {
    for (from, to) in arrows {
        let to: Vec<&str> = to.iter().map(String::as_str).collect();
        let to = if to.is_empty() {
            "-".to_owned()
        } else {
            to.join(", ")
        };
        println!("{what} {from} -> {to}");
    }
}

/// A path of arrows that leads back to where it begins; `None` if there is none.
fn circle(arrows: &Arrows) -> Option<Vec<&str>> {
    // Nodes that use none of those left are taken away, until there are no more.
    let mut left: BTreeSet<&str> = arrows.keys().map(String::as_str).collect();
    loop {
        let is_end = |node: &&str| arrows[*node].iter().all(|to| !left.contains(to.as_str()));
        let ends: Vec<&str> = left.iter().copied().filter(is_end).collect();
        if ends.is_empty() {
            break;
        }
        for end in ends {
            left.remove(end);
        }
    }
    let mut path = vec![*left.first()?];
    loop {
        let last = *path.last()?;
        let next = arrows[last].iter().find(|to| left.contains(to.as_str()))?;
        if let Some(begin) = path.iter().position(|node| node == next) {
            path.drain(..begin);
            path.push(next);
            return Some(path);
        }
        path.push(next);
    }
}

#[cfg(test)]
mod tests {
    use super::{Arrows, circle, run};

    fn arrows(of: &[(&str, &[&str])]) -> Arrows {
        let owned = |to: &[&str]| to.iter().map(|to| (*to).to_owned()).collect();
        of.iter()
            .map(|(from, to)| ((*from).to_owned(), owned(to)))
            .collect()
    }

    #[test]
    fn a_circle_is_found_with_its_way() {
        let line = arrows(&[("a", &["b", "c"]), ("b", &["c"]), ("c", &[])]);
        assert_eq!(circle(&line), None);
        let round = arrows(&[("a", &["b"]), ("b", &["c"]), ("c", &["d", "b"]), ("d", &[])]);
        assert_eq!(circle(&round), Some(vec!["b", "c", "b"]));
        let own = arrows(&[("a", &["a"])]);
        assert_eq!(circle(&own), Some(vec!["a", "a"]));
    }

    #[test]
    fn the_tree_has_the_arrows_that_it_may_have() {
        run().unwrap();
    }
}
