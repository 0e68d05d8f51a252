//! Which class content is of.

use globset::{GlobSet, GlobSetBuilder};
use hikyaku_core::egress::{Criterion, Scheduling};
use http::{HeaderMap, header};

use super::ClassConfig;
use hikyaku_content::path_glob;

/// Most classes that can be configured.
pub(crate) const MAX_CLASSES: usize = 16;
/// Longest name of a class, in bytes.
const MAX_NAME: usize = 64;

/// A class, by its place in the first configuration that had it; [`ClassId::NONE`] is that of content which
/// no class has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ClassId(u8);

impl ClassId {
    /// Of content that no class has, and of connections that have sent none.
    pub(crate) const NONE: Self = Self(MAX_CLASSES as u8);
    /// How many there can be, [`ClassId::NONE`] included.
    pub(crate) const COUNT: usize = MAX_CLASSES + 1;

    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }

    /// The class at a place; [`ClassId::NONE`] beyond the last.
    pub(crate) fn at(place: usize) -> Self {
        u8::try_from(place.min(MAX_CLASSES)).map_or(Self::NONE, Self)
    }
}

/// Content that a connection sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) class: ClassId,
    /// Of the responses that are open.
    pub(crate) bytes: u64,
}

impl Content {
    /// Of a connection that has sent nothing.
    pub(crate) const NONE: Self = Self {
        class: ClassId::NONE,
        bytes: 0,
    };
}

/// Why classes can't be used.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct ClassesError(String);

/// The configured classes, ready to be asked.
#[derive(Debug)]
pub(crate) struct Classes {
    classes: Vec<Class>,
}

#[derive(Debug)]
struct Class {
    id: ClassId,
    name: Box<str>,
    wants: Criterion,
    scheduling: Scheduling,
    paths: GlobSet,
    types: Vec<MediaType>,
    /// It has neither paths nor types.
    takes_all: bool,
}

/// A media type, or all of a kind.
#[derive(Debug)]
enum MediaType {
    One(Box<str>),
    /// With the slash.
    Kind(Box<str>),
}

impl Classes {
    /// Prepares the configured classes.
    ///
    /// # Errors
    /// When a name, glob or media type is none, a name is there twice, a class can never be reached, or
    /// there are too many.
    pub(crate) fn new(configured: &[ClassConfig]) -> Result<Self, ClassesError> {
        if configured.len() > MAX_CLASSES {
            let count = configured.len();
            return Err(ClassesError(format!(
                "there are {count} classes: keep at most {MAX_CLASSES}"
            )));
        }
        let mut classes: Vec<Class> = Vec::new();
        for (place, config) in configured.iter().enumerate() {
            let class = Class::new(ClassId::at(place), config)?;
            let wrong = if classes.iter().any(|other| other.name == class.name) {
                "there twice: give each class a name of its own"
            } else if classes.iter().any(|other| other.takes_all) {
                "never reached: a class before it has neither `paths` nor `types` and so takes all \
                 that is left"
            } else {
                classes.push(class);
                continue;
            };
            return Err(refuse(config, wrong));
        }
        Ok(Self { classes })
    }

    /// Has classes that were there `before` keep their ids, which open responses have. The others get ids
    /// that none had then, as long as there are any.
    pub(crate) fn keep_ids(&mut self, before: &Self) {
        let kept = |class: &Class| before.classes.iter().find(|old| old.name == class.name);
        let kept: Vec<Option<ClassId>> = (self.classes.iter())
            .map(|class| kept(class).map(|old| old.id))
            .collect();
        let mut free: Vec<ClassId> = (0..MAX_CLASSES)
            .map(ClassId::at)
            .filter(|id| !kept.contains(&Some(*id)))
            .collect();
        free.sort_by_key(|id| before.class(*id).is_some());
        let mut free = free.into_iter();
        for (class, kept) in self.classes.iter_mut().zip(kept) {
            class.id = kept.or_else(|| free.next()).unwrap_or(ClassId::NONE);
        }
    }

    /// The class of a response to a request for `path`.
    pub(crate) fn of(&self, path: &str, headers: &HeaderMap) -> ClassId {
        let path = path.strip_prefix('/').unwrap_or(path);
        let content_type = headers.get(header::CONTENT_TYPE);
        let content_type = content_type.and_then(|value| value.to_str().ok());
        let essence = content_type.and_then(|value| value.split(';').next());
        let essence = essence.unwrap_or_default().trim();
        let class = self.classes.iter().find(|class| class.has(path, essence));
        class.map_or(ClassId::NONE, |class| class.id)
    }

    /// Its name; empty for [`ClassId::NONE`].
    pub(crate) fn name(&self, id: ClassId) -> &str {
        self.class(id).map_or("", |class| &class.name)
    }

    /// Criterion by which the class wants its route chosen.
    pub(crate) fn wants(&self, id: ClassId) -> Criterion {
        (self.class(id)).map_or(Criterion::default(), |class| class.wants)
    }

    /// Which subflows of MPTCP are to carry its data.
    pub(crate) fn scheduling(&self, id: ClassId) -> Scheduling {
        (self.class(id)).map_or(Scheduling::default(), |class| class.scheduling)
    }

    fn class(&self, id: ClassId) -> Option<&Class> {
        self.classes.iter().find(|class| class.id == id)
    }

    /// All of them, in the order of the configuration.
    pub(crate) fn ids(&self) -> impl Iterator<Item = ClassId> {
        self.classes.iter().map(|class| class.id)
    }
}

impl Class {
    fn new(id: ClassId, config: &ClassConfig) -> Result<Self, ClassesError> {
        let name_fits = (1..=MAX_NAME).contains(&config.name.len())
            && config.name.chars().all(is_name_character);
        if !name_fits {
            return Err(refuse(
                config,
                "no name: use 1 to 64 letters, digits, `.`, `_` and `-`",
            ));
        }
        let mut paths = GlobSetBuilder::new();
        let no_glob = |error: globset::Error| refuse(config, &format!("wrong in `paths`: {error}"));
        for pattern in &config.paths {
            paths.add(path_glob(pattern, true).map_err(no_glob)?);
        }
        let types = config.types.iter().map(|text| {
            MediaType::parse(text).ok_or_else(|| {
                let why = format!(
                    "wrong in `types`: `{text}` is no media type such as text/html or video/*"
                );
                refuse(config, &why)
            })
        });
        Ok(Self {
            id,
            name: config.name.as_str().into(),
            wants: config.wants,
            scheduling: config.scheduling.unwrap_or(Scheduling::of(config.wants)),
            paths: paths.build().map_err(no_glob)?,
            types: types.collect::<Result<_, _>>()?,
            takes_all: config.paths.is_empty() && config.types.is_empty(),
        })
    }

    fn has(&self, path: &str, essence: &str) -> bool {
        self.takes_all
            || self.types.iter().any(|kind| kind.has(essence))
            || !self.paths.is_empty() && self.paths.is_match(path)
    }
}

impl MediaType {
    fn parse(text: &str) -> Option<Self> {
        let (kind, subtype) = text.split_once('/')?;
        // RFC 9110 §5.6.2: a token.
        let token = |text: &str| {
            !text.is_empty()
                && text
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || "!#$%&'+-.^_`|~".contains(c))
        };
        match subtype {
            "*" if token(kind) => Some(Self::Kind(format!("{kind}/").into())),
            _ if token(kind) && token(subtype) => Some(Self::One(text.into())),
            _ => None,
        }
    }

    fn has(&self, essence: &str) -> bool {
        match self {
            Self::One(all) => all.eq_ignore_ascii_case(essence),
            Self::Kind(kind) => {
                let begin = essence.get(..kind.len());
                begin.is_some_and(|begin| kind.eq_ignore_ascii_case(begin))
            }
        }
    }
}

fn is_name_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || "._-".contains(c)
}

fn refuse(config: &ClassConfig, why: &str) -> ClassesError {
    ClassesError(format!("class `{}` is {why}", config.name))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn class(name: &str, paths: &[&str], types: &[&str]) -> ClassConfig {
        ClassConfig {
            name: name.to_owned(),
            paths: paths.iter().map(|&path| path.to_owned()).collect(),
            types: types.iter().map(|&kind| kind.to_owned()).collect(),
            wants: Criterion::Goodput,
            scheduling: None,
        }
    }

    fn name_of(classes: &Classes, path: &str, content_type: &str) -> String {
        let mut headers = HeaderMap::new();
        if !content_type.is_empty() {
            let value = HeaderValue::try_from(content_type).unwrap();
            headers.insert(header::CONTENT_TYPE, value);
        }
        classes.name(classes.of(path, &headers)).to_owned()
    }

    #[test]
    fn the_built_in_classes() {
        let classes = Classes::new(&ClassConfig::defaults()).unwrap();
        let cases = [
            ("/", "text/html; charset=utf-8", "interactive"),
            ("/api/x", "Application/JSON", "interactive"),
            ("/film.mp4", "video/mp4", "live"),
            ("/live/seg-1.TS", "application/octet-stream", "live"),
            ("/live/index.m3u8", "", "live"),
            ("/disk.iso", "application/octet-stream", "bulk"),
            ("/photo.jpg", "image/jpeg", "bulk"),
            ("/", "", "bulk"),
        ];
        for (path, content_type, want) in cases {
            let got = name_of(&classes, path, content_type);
            assert_eq!(got, want, "{path} {content_type}");
        }
        let wants: Vec<Criterion> = classes.ids().map(|id| classes.wants(id)).collect();
        assert_eq!(
            wants,
            [Criterion::Stall, Criterion::Rtt, Criterion::Goodput]
        );
        let scheduling: Vec<Scheduling> = classes.ids().map(|id| classes.scheduling(id)).collect();
        assert_eq!(
            scheduling,
            [
                Scheduling::Capacity,
                Scheduling::LowestRtt,
                Scheduling::Capacity
            ]
        );
        let mut named = ClassConfig::defaults();
        named[0].scheduling = Some(Scheduling::LowestRtt);
        let named = Classes::new(&named).unwrap();
        assert_eq!(named.scheduling(ClassId::at(0)), Scheduling::LowestRtt);
    }

    #[test]
    fn the_first_that_has_it_holds() {
        let classes = Classes::new(&[
            class("films", &["/films/**"], &[]),
            class("video", &["*.mkv"], &["video/*"]),
        ])
        .unwrap();
        let cases = [
            ("/films/a/b.html", "text/html", "films"),
            ("/other/films/a.html", "text/html", ""),
            ("/a.mkv", "", "video"),
            ("/a", "videos/x", ""),
            ("/a", "video", ""),
        ];
        for (path, content_type, want) in cases {
            let got = name_of(&classes, path, content_type);
            assert_eq!(got, want, "{path} {content_type}");
        }
        assert_eq!(classes.wants(ClassId::NONE), Criterion::Goodput);
        assert_eq!(classes.scheduling(ClassId::NONE), Scheduling::Capacity);
    }

    #[test]
    fn a_class_keeps_its_id_when_others_change() {
        let classes = |names: &str| {
            let names = names.chars().map(String::from);
            let configured: Vec<ClassConfig> =
                names.map(|name| class(&name, &["x"], &[])).collect();
            Classes::new(&configured).unwrap()
        };
        let ids = |classes: &Classes| -> Vec<usize> { classes.ids().map(ClassId::index).collect() };
        let before = classes("abc");
        let mut now = classes("dcxa");
        now.keep_ids(&before);
        assert_eq!(ids(&now), [3, 2, 4, 0]);
        assert_eq!(now.name(ClassId::at(2)), "c");
        assert_eq!(now.name(ClassId::at(1)), "", "it is gone");
        // With all ids taken those of classes that are gone are used again.
        let all = classes("abcdefghijklmnop");
        let mut now = classes("ABc");
        now.keep_ids(&all);
        assert_eq!(ids(&now), [0, 1, 2]);
    }

    #[test]
    fn wrong_classes_are_reported() {
        let many: Vec<ClassConfig> = (0..17)
            .map(|n| class(&n.to_string(), &["a"], &[]))
            .collect();
        let cases = [
            (vec![class("a b", &[], &[])], "class `a b` is no name"),
            (vec![class("a", &["x["], &[])], "wrong in `paths`"),
            (
                vec![class("a", &[], &["video"])],
                "`video` is no media type",
            ),
            (vec![class("a", &[], &["*/*"])], "`*/*` is no media type"),
            (
                vec![class("a", &["x"], &[]), class("a", &["y"], &[])],
                "class `a` is there twice",
            ),
            (
                vec![class("a", &[], &[]), class("b", &["y"], &[])],
                "class `b` is never reached",
            ),
            (many, "at most 16"),
        ];
        for (classes, want) in cases {
            let error = Classes::new(&classes).unwrap_err().to_string();
            assert!(error.contains(want), "{error}");
        }
    }
}
