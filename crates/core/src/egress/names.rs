//! The egress routes' names.

use std::fmt;

use super::{EgressId, EgressSet, MAX_EGRESSES};

/// The names of the agent's egress routes. An egress route keeps its place and all knowledge of it
/// while it is away, until another needs the place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EgressNames {
    names: [Option<Box<str>>; MAX_EGRESSES],
}

impl EgressNames {
    /// Gives each of the `present` egress routes a place, and returns the places that went from one
    /// egress route to another. The knowledge of those is to be forgotten
    /// ([`RouteTable::forget_egress`]).
    ///
    /// Beyond [`MAX_EGRESSES`] present ones, the later have no place and cannot be chosen.
    ///
    /// [`RouteTable::forget_egress`]: super::RouteTable::forget_egress
    pub fn update(&mut self, present: &[&str]) -> EgressSet {
        let mut changed = EgressSet::EMPTY;
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

    /// Gives an egress route a place that no egress route has had; `None` where there is none left.
    pub(super) fn add(&mut self, name: &str) -> Option<EgressId> {
        if let Some(known) = self.id(name) {
            return Some(known);
        }
        let free = self.names.iter().position(Option::is_none)?;
        self.names[free] = Some(name.into());
        EgressId::new(u8::try_from(free).ok()?)
    }

    /// A place that no egress route has, or none of the `present` ones.
    fn place(&self, present: &[&str]) -> Option<EgressId> {
        let free = self.names.iter().position(Option::is_none);
        let away = |name: &Option<Box<str>>| !name.as_deref().is_some_and(|n| present.contains(&n));
        let place = free.or_else(|| self.names.iter().position(away))?;
        EgressId::new(u8::try_from(place).ok()?)
    }

    /// The egress route of a name; `None` if none has it.
    #[must_use]
    pub fn id(&self, name: &str) -> Option<EgressId> {
        let has = |known: &Option<Box<str>>| known.as_deref() == Some(name);
        let place = self.names.iter().position(has)?;
        EgressId::new(u8::try_from(place).ok()?)
    }

    /// An egress route's name; `None` for a place that no egress route has had.
    #[must_use]
    pub fn name(&self, egress: EgressId) -> Option<&str> {
        self.names[egress.index()].as_deref()
    }

    pub(super) fn write(&self, egress: EgressId, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name(egress) {
            Some(name) => f.write_str(name),
            None => write!(f, "path {}", egress.index()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{EgressId, EgressNames, MAX_EGRESSES};

    #[test]
    fn egresses_keep_their_places() {
        let mut names = EgressNames::default();
        assert!(names.update(&["transit-a", "transit-b"]).is_empty());
        let [a, b] = ["transit-a", "transit-b"].map(|name| names.id(name));
        assert_eq!((a, b), (EgressId::new(0), EgressId::new(1)));
        assert!(names.update(&["transit-b"]).is_empty());
        assert!(names.update(&["peer-c", "transit-a"]).is_empty());
        assert_eq!(names.id("transit-a"), a);
        assert_eq!(names.id("peer-c"), EgressId::new(2));
    }

    #[test]
    fn an_egress_that_is_away_makes_room() {
        let mut names = EgressNames::default();
        let all: Vec<String> = (0..=MAX_EGRESSES).map(|n| format!("path-{n}")).collect();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        assert!(names.update(&all).is_empty());
        assert_eq!(names.id("path-16"), None, "there are 16 places");
        let changed = names.update(&all[1..]);
        assert_eq!(changed.iter().collect::<Vec<_>>(), [EgressId(0)]);
        assert_eq!(names.id("path-16"), Some(EgressId(0)));
        assert_eq!(names.id("path-0"), None);
    }
}
