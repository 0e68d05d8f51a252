//! Sealed contents: encrypted and authenticated under keys that only the edges have.
//!
//! A version (1 byte), a random nonce (12 bytes), then AES-256-GCM of the content with its tag. The fleet's
//! prefix, the topic and the name are authenticated, so that no value can be moved to another place. The keys
//! are derived from the secrets of `fleet.key_file` by HKDF-SHA256 (RFC 5869).

use std::fmt;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Salt};
use aws_lc_rs::rand::{SecureRandom, SystemRandom};

use crate::board::Content;

/// Longest content, in bytes.
pub const MAX_CONTENT: usize = 64 * 1024;
/// Longest title, in bytes.
pub(crate) const MAX_TITLE: usize = 512;
/// Longest sealed value, in bytes.
pub(crate) const MAX_SEALED: usize = HEAD + FIXED + MAX_TITLE + MAX_CONTENT + TAG;

const VERSION: u8 = 1;
const HEAD: usize = 1 + NONCE_LEN;
const TAG: usize = 16;
/// Two numbers of the stamp, the end, and the length of the title.
const FIXED: usize = 8 + 8 + 8 + 2;
const LABEL: &[u8] = b"hikyaku fleet store 1";

/// Keys of which the first seals, and all open.
pub(crate) struct Sealer(Vec<LessSafeKey>);

/// The place of a value.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) prefix: &'a str,
    pub(crate) topic: &'a str,
    pub(crate) name: &'a str,
}

impl Place<'_> {
    /// Distinct for distinct places: none of the parts has a space.
    fn bytes(self) -> Vec<u8> {
        format!("{VERSION} {} {} {}", self.prefix, self.topic, self.name).into_bytes()
    }
}

struct Length;

impl KeyType for Length {
    fn len(&self) -> usize {
        32
    }
}

impl Sealer {
    /// Keys of these secrets, the newest first. `None` without any.
    pub(crate) fn new(secrets: &[[u8; 32]]) -> Option<Self> {
        let keys: Vec<_> = secrets.iter().filter_map(key).collect();
        (!keys.is_empty()).then_some(Self(keys))
    }

    /// The sealed value, with its revision. `None` if the content is too long, or there is no randomness.
    pub(crate) fn seal(&self, place: Place<'_>, content: &Content) -> Option<(Vec<u8>, String)> {
        let title = content.title.as_bytes();
        if content.bytes.len() > MAX_CONTENT || title.len() > MAX_TITLE {
            return None;
        }
        let mut text = Vec::with_capacity(FIXED + title.len() + content.bytes.len() + TAG);
        for number in [content.stamp.0, content.stamp.1, content.until] {
            text.extend(number.to_be_bytes());
        }
        text.extend(u16::try_from(title.len()).ok()?.to_be_bytes());
        text.extend(title);
        text.extend(&content.bytes);
        // Of 96 random bits. A key seals some values a minute, and nonces meet after 2^32 of them.
        let mut nonce = [0; NONCE_LEN];
        SystemRandom::new().fill(&mut nonce).ok()?;
        let sealed = self.0.first()?.seal_in_place_append_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(place.bytes()),
            &mut text,
        );
        sealed.ok()?;
        let value = [&[VERSION][..], &nonce, &text].concat();
        Some((value, hex(&nonce)))
    }

    /// The content of a sealed value, if one of the keys has sealed it for this place.
    pub(crate) fn open(&self, place: Place<'_>, value: &[u8]) -> Option<Content> {
        if value.len() > MAX_SEALED {
            return None;
        }
        let (&[VERSION], rest) = value.split_first_chunk::<1>()? else {
            return None;
        };
        let (nonce, text) = rest.split_at_checked(NONCE_LEN)?;
        let aad = place.bytes();
        self.0.iter().find_map(|key| {
            let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
            let mut text = text.to_vec();
            let plain = key.open_in_place(nonce, Aad::from(&aad), &mut text);
            parse(plain.ok()?)
        })
    }
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sealer of {} keys", self.0.len())
    }
}

fn key(secret: &[u8; 32]) -> Option<LessSafeKey> {
    let prk = Salt::new(HKDF_SHA256, &[]).extract(secret);
    let mut key = [0; 32];
    prk.expand(&[LABEL], Length).ok()?.fill(&mut key).ok()?;
    let key = UnboundKey::new(&AES_256_GCM, &key).ok()?;
    Some(LessSafeKey::new(key))
}

fn parse(plain: &[u8]) -> Option<Content> {
    let (first, rest) = plain.split_first_chunk::<8>()?;
    let (second, rest) = rest.split_first_chunk::<8>()?;
    let (until, rest) = rest.split_first_chunk::<8>()?;
    let (length, rest) = rest.split_first_chunk::<2>()?;
    let (title, bytes) = rest.split_at_checked(u16::from_be_bytes(*length).into())?;
    Some(Content {
        stamp: (u64::from_be_bytes(*first), u64::from_be_bytes(*second)),
        until: u64::from_be_bytes(*until),
        title: String::from_utf8(title.to_vec()).ok()?,
        bytes: bytes.to_vec(),
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::{any, prop_assert_eq, proptest};

    use super::{MAX_CONTENT, Place, Sealer};
    use crate::board::Content;

    const PLACE: Place<'_> = Place {
        prefix: "f",
        topic: "certificate",
        name: "a",
    };

    fn sealer(secrets: &[u8]) -> Sealer {
        let secrets: Vec<_> = secrets.iter().map(|&byte| [byte; 32]).collect();
        Sealer::new(&secrets).expect("a secret")
    }

    fn content(bytes: &[u8]) -> Content {
        Content {
            stamp: (7, 8),
            until: 9,
            title: "a.example".to_owned(),
            bytes: bytes.to_vec(),
        }
    }

    #[test]
    fn only_edges_with_the_secret_read_it_and_only_in_its_place() {
        let (value, revision) = sealer(&[1, 2])
            .seal(PLACE, &content(b"secret"))
            .expect("sealed");
        assert_eq!(revision.len(), 24);
        let shown = |part: &[u8]| value.windows(part.len()).any(|window| window == part);
        assert!(!shown(b"secret") && !shown(b"a.example"));
        let cases: [(&str, &[u8], Place<'_>, bool); 6] = [
            ("the same", &[1], PLACE, true),
            ("before its first use", &[3, 1], PLACE, true),
            ("a stranger", &[2], PLACE, false),
            (
                "another fleet",
                &[1],
                Place {
                    prefix: "g",
                    ..PLACE
                },
                false,
            ),
            (
                "another topic",
                &[1],
                Place {
                    topic: "account",
                    ..PLACE
                },
                false,
            ),
            ("another name", &[1], Place { name: "b", ..PLACE }, false),
        ];
        for (name, secrets, place, opens) in cases {
            let opened = sealer(secrets).open(place, &value);
            assert_eq!(opened, opens.then(|| content(b"secret")), "{name}");
        }
        assert!(Sealer::new(&[]).is_none());
    }

    #[test]
    fn changed_values_are_refused() {
        let sealer = sealer(&[1]);
        let (value, _) = sealer.seal(PLACE, &content(b"secret")).expect("sealed");
        for at in 0..value.len() {
            let mut changed = value.clone();
            changed[at] ^= 1;
            assert_eq!(sealer.open(PLACE, &changed), None, "byte {at}");
            assert_eq!(sealer.open(PLACE, &value[..at]), None, "{at} bytes");
        }
        let long = content(&vec![0; MAX_CONTENT + 1]);
        assert!(sealer.seal(PLACE, &long).is_none());
    }

    proptest! {
        #[test]
        fn contents_come_back(bytes in vec(any::<u8>(), 0..300), title in ".{0,20}", until in any::<u64>()) {
            let content = Content { stamp: (until / 2, 3), until, title, bytes };
            let (value, _) = sealer(&[5]).seal(PLACE, &content).expect("short");
            prop_assert_eq!(sealer(&[5]).open(PLACE, &value), Some(content));
        }

        #[test]
        fn any_bytes_are_refused(value in vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(sealer(&[5]).open(PLACE, &value), None);
        }
    }
}
