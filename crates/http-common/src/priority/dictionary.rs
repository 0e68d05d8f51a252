//! Dictionaries of structured fields (RFC 9651 §3.2), as far as priorities need them.

/// A member's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Boolean(bool),
    Integer(i64),
    /// A valid value of another type.
    Other,
}

/// Parses a dictionary, and hands each member to `on_member` in their order. `None` if it is
/// malformed (RFC 9651 §4.2.2): the members before the fault do not count then.
pub(super) fn parse<'a>(text: &'a [u8], mut on_member: impl FnMut(&'a [u8], Value)) -> Option<()> {
    let mut input = Input(text.trim_ascii());
    while !input.0.is_empty() {
        let key = input.key()?;
        let value = if input.skip(b'=') {
            input.member()?
        } else {
            Value::Boolean(true)
        };
        input.parameters()?;
        on_member(key, value);
        input.whitespace();
        if input.0.is_empty() {
            break;
        }
        if !input.skip(b',') {
            return None;
        }
        input.whitespace();
        if input.0.is_empty() {
            return None;
        }
    }
    Some(())
}

struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn skip(&mut self, byte: u8) -> bool {
        let rest = self.0.strip_prefix(&[byte]);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    fn take_while(&mut self, wanted: impl Fn(u8) -> bool) -> &'a [u8] {
        let end = self.0.iter().position(|byte| !wanted(*byte));
        let (taken, rest) = self.0.split_at(end.unwrap_or(self.0.len()));
        self.0 = rest;
        taken
    }

    fn whitespace(&mut self) {
        self.take_while(|byte| matches!(byte, b' ' | b'\t'));
    }

    /// Parses a key (RFC 9651 §4.2.3.3).
    fn key(&mut self) -> Option<&'a [u8]> {
        let first = *self.0.first()?;
        if !first.is_ascii_lowercase() && first != b'*' {
            return None;
        }
        Some(self.take_while(
            |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'.' | b'*'),
        ))
    }

    /// Parses an item or an inner list (RFC 9651 §4.2.1.1), without its parameters.
    fn member(&mut self) -> Option<Value> {
        if !self.skip(b'(') {
            return self.bare_item();
        }
        loop {
            self.take_while(|byte| byte == b' ');
            if self.skip(b')') {
                return Some(Value::Other);
            }
            self.bare_item()?;
            self.parameters()?;
            if !matches!(self.0.first(), Some(b' ' | b')')) {
                return None;
            }
        }
    }

    /// Skips parameters (RFC 9651 §4.2.3.2).
    fn parameters(&mut self) -> Option<()> {
        while self.skip(b';') {
            self.take_while(|byte| byte == b' ');
            self.key()?;
            if self.skip(b'=') {
                self.bare_item()?;
            }
        }
        Some(())
    }

    /// Parses a bare item (RFC 9651 §4.2.3.1).
    fn bare_item(&mut self) -> Option<Value> {
        match *self.0.first()? {
            b'-' | b'0'..=b'9' => self.number(),
            b'"' => self.string(),
            b'?' => self.boolean(),
            b':' => self.byte_sequence(),
            b'@' => {
                self.0 = &self.0[1..];
                matches!(self.number()?, Value::Integer(_)).then_some(Value::Other)
            }
            b'*' | b'a'..=b'z' | b'A'..=b'Z' => {
                self.take_while(|byte| is_token(byte) || matches!(byte, b':' | b'/'));
                Some(Value::Other)
            }
            _ => None,
        }
    }

    /// Parses a number (RFC 9651 §4.2.4): at most 15 digits, or 12 and 3 after a point.
    fn number(&mut self) -> Option<Value> {
        let negative = self.skip(b'-');
        let whole = self.take_while(|byte| byte.is_ascii_digit());
        if self.skip(b'.') {
            let part = self.take_while(|byte| byte.is_ascii_digit());
            let valid = (1..=12).contains(&whole.len()) && (1..=3).contains(&part.len());
            return valid.then_some(Value::Other);
        }
        if !(1..=15).contains(&whole.len()) {
            return None;
        }
        let value = whole
            .iter()
            .fold(0, |value, digit| value * 10 + i64::from(digit - b'0'));
        Some(Value::Integer(if negative { -value } else { value }))
    }

    /// Parses a string (RFC 9651 §4.2.5).
    fn string(&mut self) -> Option<Value> {
        self.skip(b'"');
        loop {
            self.take_while(|byte| matches!(byte, 0x20..0x7f) && !matches!(byte, b'"' | b'\\'));
            if self.skip(b'"') {
                return Some(Value::Other);
            }
            if !self.skip(b'\\') || !(self.skip(b'"') || self.skip(b'\\')) {
                return None;
            }
        }
    }

    /// Parses a boolean (RFC 9651 §4.2.8).
    fn boolean(&mut self) -> Option<Value> {
        self.skip(b'?');
        match (self.skip(b'1'), self.skip(b'0')) {
            (true, false) => Some(Value::Boolean(true)),
            (false, true) => Some(Value::Boolean(false)),
            _ => None,
        }
    }

    /// Parses a byte sequence (RFC 9651 §4.2.7).
    fn byte_sequence(&mut self) -> Option<Value> {
        self.skip(b':');
        self.take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'='));
        self.skip(b':').then_some(Value::Other)
    }
}

/// Whether a byte may stand in a token (RFC 9110 §5.6.2).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
