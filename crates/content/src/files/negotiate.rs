//! Choice of a content coding by `Accept-Encoding` (RFC 9110 §12.5.3).

use http::{HeaderMap, HeaderValue, header};
use serde::Deserialize;

/// A content coding (RFC 9110 §8.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Coding {
    /// Brotli (RFC 7932), `.br`.
    Br,
    /// Zstandard (RFC 8878), `.zst`.
    Zstd,
    /// gzip (RFC 1952), `.gz`.
    Gzip,
}

impl Coding {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Br, Self::Zstd, Self::Gzip];

    /// The position in [`Coding::ALL`].
    pub(crate) const fn index(self) -> usize {
        self as usize
    }

    /// The extension of a sibling, after the file's own.
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::Br => ".br",
            Self::Zstd => ".zst",
            Self::Gzip => ".gz",
        }
    }

    /// The name in `Accept-Encoding` and `Content-Encoding`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Br => "br",
            Self::Zstd => "zstd",
            Self::Gzip => "gzip",
        }
    }

    /// The value of `Content-Encoding`.
    pub const fn header_value(self) -> HeaderValue {
        HeaderValue::from_static(self.name())
    }

    /// Whether `name` of `Accept-Encoding` means this coding.
    fn is_named(self, name: &str) -> bool {
        name.eq_ignore_ascii_case(self.name())
            || (self == Self::Gzip && name.eq_ignore_ascii_case("x-gzip"))
    }
}

/// Chooses the best of the available codings; `None` stands for the plain content.
///
/// The highest weight wins, and among equals the order of `available`. A coding that the client
/// lists beats the plain content unless that has an explicit higher weight.
///
/// Without any acceptable coding the plain content is sent, even against `identity;q=0`. RFC 9110
/// §12.1 lets a server disregard the field, and a client can do more with the content than with a
/// 406.
pub(crate) fn choose(
    headers: &HeaderMap,
    available: impl Iterator<Item = Coding>,
) -> Option<Coding> {
    let accepted = Accepted::of(headers);
    let mut best: Option<(Weight, Coding)> = None;
    for coding in available {
        let quality = accepted.weight(coding);
        if quality > best.map_or(Weight(0), |(highest, _)| highest) {
            best = Some((quality, coding));
        }
    }
    let (quality, coding) = best?;
    (quality >= accepted.plain.unwrap_or(Weight(0))).then_some(coding)
}

/// The weights that a client gives, the highest of those for a name; `None` for those that it does not
/// list.
#[derive(Default)]
struct Accepted {
    /// By [`Coding::index`].
    codings: [Option<Weight>; Coding::ALL.len()],
    /// Of all that are not listed.
    others: Option<Weight>,
    plain: Option<Weight>,
}

impl Accepted {
    /// Reads the fields once, since that is most of the work for a file in memory.
    fn of(headers: &HeaderMap) -> Self {
        let mut accepted = Self::default();
        let fields = headers.get_all(header::ACCEPT_ENCODING).iter();
        let items = fields
            .filter_map(|field| field.to_str().ok())
            .flat_map(|field| field.split(','));
        for item in items {
            let (name, parameters) = item.split_once(';').unwrap_or((item, ""));
            if let Some(weight) = accepted.of_name(name.trim()) {
                let given = Weight::of_parameters(parameters.split(';').map(str::trim));
                *weight = (*weight).max(Some(given));
            }
        }
        accepted
    }

    fn of_name(&mut self, name: &str) -> Option<&mut Option<Weight>> {
        let coding = Coding::ALL.iter().find(|coding| coding.is_named(name));
        match coding {
            Some(coding) => Some(&mut self.codings[coding.index()]),
            None if name == "*" => Some(&mut self.others),
            None if name.eq_ignore_ascii_case("identity") => Some(&mut self.plain),
            None => None,
        }
    }

    fn weight(&self, coding: Coding) -> Weight {
        let listed = self.codings[coding.index()];
        listed.or(self.others).unwrap_or(Weight(0))
    }
}

/// A quality value in thousandths (RFC 9110 §12.4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Weight(u16);

impl Weight {
    /// Reads the weight among an item's parameters: 1 if there is none, and 0 (never use it) if it
    /// is malformed.
    fn of_parameters<'a>(mut parameters: impl Iterator<Item = &'a str>) -> Self {
        let value = parameters.find_map(|parameter| {
            let (name, value) = parameter.split_once('=')?;
            name.trim()
                .eq_ignore_ascii_case("q")
                .then_some(value.trim())
        });
        value.map_or(Self(1000), |value| Self::parse(value).unwrap_or(Self(0)))
    }

    fn parse(value: &str) -> Option<Self> {
        let (whole, fraction) = value.split_once('.').unwrap_or((value, ""));
        if fraction.len() > 3 || !fraction.bytes().all(|digit| digit.is_ascii_digit()) {
            return None;
        }
        let thousandths = format!("{fraction:0<3}").parse().ok()?;
        match (whole, thousandths) {
            ("0", thousandths) => Some(Self(thousandths)),
            ("1", 0) => Some(Self(1000)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coding_follows_the_weights() {
        use Coding::{Br, Gzip, Zstd};
        const ALL: &[Coding] = &[Br, Zstd, Gzip];
        type Case<'a> = (&'a str, &'a [&'a str], &'a [Coding], Option<Coding>);
        let cases: &[Case<'_>] = &[
            ("no field", &[], ALL, None),
            ("empty field", &[""], ALL, None),
            ("one", &["gzip"], ALL, Some(Gzip)),
            (
                "server's order among equals",
                &["gzip, deflate, br, zstd"],
                ALL,
                Some(Br),
            ),
            ("only what is there", &["gzip, br"], &[Gzip], Some(Gzip)),
            ("nothing that is there", &["deflate"], ALL, None),
            ("weights", &["br;q=0.5, gzip;q=0.8"], ALL, Some(Gzip)),
            (
                "spaces and case",
                &["BR ; Q=0.1 ,\tZSTD;q=0.2"],
                ALL,
                Some(Zstd),
            ),
            ("refused", &["br;q=0, gzip"], ALL, Some(Gzip)),
            ("refused with decimals", &["gzip;q=0.000"], ALL, None),
            ("star", &["*"], ALL, Some(Br)),
            ("star without one", &["*, br;q=0"], ALL, Some(Zstd)),
            (
                "star refuses the rest",
                &["gzip;q=0.5, *;q=0"],
                ALL,
                Some(Gzip),
            ),
            ("plain preferred", &["identity, gzip;q=0.5"], ALL, None),
            (
                "plain as good",
                &["identity;q=0.5, gzip;q=0.5"],
                ALL,
                Some(Gzip),
            ),
            (
                "plain refused",
                &["identity;q=0, gzip;q=0.1"],
                ALL,
                Some(Gzip),
            ),
            ("all refused", &["identity;q=0, *;q=0"], ALL, None),
            ("old name", &["x-gzip"], ALL, Some(Gzip)),
            ("several fields", &["gzip;q=0.1", "br;q=0.2"], ALL, Some(Br)),
            ("weight above one", &["br;q=1.5, gzip"], ALL, Some(Gzip)),
            (
                "weight too fine",
                &["br;q=0.1234, gzip;q=0.01"],
                ALL,
                Some(Gzip),
            ),
            ("no number", &["br;q=x"], ALL, None),
            ("sign", &["br;q=+0.5"], ALL, None),
            (
                "other parameter",
                &["br;level=5;q=0.3, gzip;q=0.2"],
                ALL,
                Some(Br),
            ),
            ("prefix of a name", &["brotli, gz"], ALL, None),
        ];
        for (name, fields, available, want) in cases {
            let mut headers = HeaderMap::new();
            for field in *fields {
                headers.append(header::ACCEPT_ENCODING, HeaderValue::from_static(field));
            }
            assert_eq!(choose(&headers, available.iter().copied()), *want, "{name}");
        }
    }
}
