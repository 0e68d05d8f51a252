//! The paths' names.

use std::fmt;

use super::{MAX_PATHS, PathId, PathSet};

/// The names of the agent's paths. A path keeps its place, and what was learnt of it, while it is away,
/// until another needs the place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathNames {
    names: [Option<Box<str>>; MAX_PATHS],
}

impl PathNames {
    /// Gives each of the `present` paths a place, and returns the places that went from one path to
    /// another: what is known of those is to be forgotten ([`PathTable::forget_path`]).
    ///
    /// Beyond [`MAX_PATHS`] present ones, the later have no place and cannot be chosen.
    ///
    /// [`PathTable::forget_path`]: super::PathTable::forget_path
    pub fn update(&mut self, present: &[&str]) -> PathSet {
        let mut changed = PathSet::EMPTY;
        for name in present {
            if self.id(name).is_some() {
                continue;
            }
            let Some(place) = self.place(present) else {
                break;
            };
            if self.names[place.index()].replace((*name).into()).is_some() {
                changed.insert(place);
            }
        }
        changed
    }

    /// Gives a path a place that no path has had; `None` where there is none left.
    pub(super) fn add(&mut self, name: &str) -> Option<PathId> {
        if let Some(known) = self.id(name) {
            return Some(known);
        }
        let free = self.names.iter().position(Option::is_none)?;
        self.names[free] = Some(name.into());
        PathId::new(u8::try_from(free).ok()?)
    }

    /// A place that no path has, or none of the `present` ones.
    fn place(&self, present: &[&str]) -> Option<PathId> {
        let free = self.names.iter().position(Option::is_none);
        let away = |name: &Option<Box<str>>| !name.as_deref().is_some_and(|n| present.contains(&n));
        let place = free.or_else(|| self.names.iter().position(away))?;
        PathId::new(u8::try_from(place).ok()?)
    }

    /// The path of a name; `None` if none has it.
    #[must_use]
    pub fn id(&self, name: &str) -> Option<PathId> {
        let has = |known: &Option<Box<str>>| known.as_deref() == Some(name);
        let place = self.names.iter().position(has)?;
        PathId::new(u8::try_from(place).ok()?)
    }

    /// A path's name; `None` for a place that no path has had.
    #[must_use]
    pub fn name(&self, path: PathId) -> Option<&str> {
        self.names[path.index()].as_deref()
    }

    pub(super) fn write(&self, path: PathId, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name(path) {
            Some(name) => f.write_str(name),
            None => write!(f, "path {}", path.index()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_PATHS, PathId, PathNames};

    #[test]
    fn paths_keep_their_places() {
        let mut names = PathNames::default();
        assert!(names.update(&["transit-a", "transit-b"]).is_empty());
        let [a, b] = ["transit-a", "transit-b"].map(|name| names.id(name));
        assert_eq!((a, b), (PathId::new(0), PathId::new(1)));
        assert!(names.update(&["transit-b"]).is_empty());
        assert!(names.update(&["peer-c", "transit-a"]).is_empty());
        assert_eq!(names.id("transit-a"), a);
        assert_eq!(names.id("peer-c"), PathId::new(2));
    }

    #[test]
    fn a_path_that_is_away_makes_room() {
        let mut names = PathNames::default();
        let all: Vec<String> = (0..=MAX_PATHS).map(|n| format!("path-{n}")).collect();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        assert!(names.update(&all).is_empty());
        assert_eq!(names.id("path-16"), None, "there are 16 places");
        let changed = names.update(&all[1..]);
        assert_eq!(changed.iter().collect::<Vec<_>>(), [PathId(0)]);
        assert_eq!(names.id("path-16"), Some(PathId(0)));
        assert_eq!(names.id("path-0"), None);
    }
}
