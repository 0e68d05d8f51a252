//! Decimal numbers with a unit behind them, read and printed without rounding.

use std::fmt;

/// Why a text is not a quantity. Its message names the expected form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("reading {what} from `{text}`: {problem}; expected {expected}")]
pub struct ParseUnitError {
    what: &'static str,
    expected: &'static str,
    text: String,
    problem: Problem,
}

impl ParseUnitError {
    /// The reason why the text is not a quantity.
    #[must_use]
    pub const fn problem(&self) -> Problem {
        self.problem
    }
}

/// The reasons why a text is not a quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// The text does not start with a plain decimal number.
    Number,
    /// The number has no unit.
    NoUnit,
    /// The unit is unknown.
    Unit,
    /// The number has more decimals than the smallest unit can hold.
    Fraction,
    /// The quantity is too large.
    Range,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Number => "not a decimal number",
            Self::NoUnit => "the unit is missing",
            Self::Unit => "unknown unit",
            Self::Fraction => "too many decimals",
            Self::Range => "too large",
        })
    }
}

/// How one kind of quantity is written.
pub(super) struct Notation {
    /// The quantity with its article, for messages.
    pub(super) what: &'static str,
    /// The form of a valid text, for messages.
    pub(super) expected: &'static str,
    /// Units and their size in the smallest one, ascending.
    pub(super) units: &'static [(&'static str, u64)],
    /// Whether a number may stand without a unit, and then counts the smallest unit.
    pub(super) bare: bool,
    /// Largest permitted value, in the smallest unit.
    pub(super) max: u64,
}

impl Notation {
    /// The value of `text` in the smallest unit.
    pub(super) fn parse(&self, text: &str) -> Result<u64, ParseUnitError> {
        self.value(text)
            .map_err(|problem| self.error(text, problem))
    }

    pub(super) fn error(&self, text: &str, problem: Problem) -> ParseUnitError {
        let (what, expected) = (self.what, self.expected);
        let text = text.chars().take(MAX_QUOTED).collect();
        ParseUnitError {
            what,
            expected,
            text,
            problem,
        }
    }

    fn value(&self, text: &str) -> Result<u64, Problem> {
        let end = text
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        let (whole, fraction) = match number.split_once('.') {
            Some((_, "")) => return Err(Problem::Number),
            Some(parts) => parts,
            None => (number, ""),
        };
        if whole.is_empty() || fraction.contains('.') {
            return Err(Problem::Number);
        }
        let factor = u128::from(self.factor(unit)?);
        let whole: u128 = whole.parse().map_err(|_| Problem::Range)?;
        let value = whole.checked_mul(factor).ok_or(Problem::Range)?;
        let value = value
            .checked_add(share(fraction, factor)?)
            .ok_or(Problem::Range)?;
        u64::try_from(value)
            .ok()
            .filter(|&v| v <= self.max)
            .ok_or(Problem::Range)
    }

    fn factor(&self, unit: &str) -> Result<u64, Problem> {
        if unit.is_empty() {
            return if self.bare {
                Ok(1)
            } else {
                Err(Problem::NoUnit)
            };
        }
        self.units
            .iter()
            .find(|(name, _)| *name == unit)
            .map(|&(_, f)| f)
            .ok_or(Problem::Unit)
    }

    /// Writes `value` in the largest unit that needs no decimals.
    pub(super) fn write(&self, value: u128, f: &mut impl fmt::Write) -> fmt::Result {
        let fits = |&&(_, factor): &&(&str, u64)| {
            value >= u128::from(factor) && value.is_multiple_of(u128::from(factor))
        };
        let (unit, factor) = self.units.iter().rev().find(fits).unwrap_or(&self.units[0]);
        write!(f, "{}{unit}", value / u128::from(*factor))
    }
}

/// Returns `0.fraction` of a unit, in smallest units, if that is a whole number.
fn share(fraction: &str, factor: u128) -> Result<u128, Problem> {
    let digits = fraction.trim_end_matches('0');
    if digits.is_empty() {
        return Ok(0);
    }
    let places = u32::try_from(digits.len()).map_err(|_| Problem::Fraction)?;
    let scale = 10u128.checked_pow(places).ok_or(Problem::Fraction)?;
    let numerator: u128 = digits.parse().map_err(|_| Problem::Fraction)?;
    let scaled = numerator.checked_mul(factor).ok_or(Problem::Fraction)?;
    if scaled.is_multiple_of(scale) {
        Ok(scaled / scale)
    } else {
        Err(Problem::Fraction)
    }
}

/// Longest part of a wrong text that an error repeats, in characters.
const MAX_QUOTED: usize = 40;
