//! Dictionaries of structured fields (RFC 9651 §3.2), as far as directives need them.

/// The value of a member, without its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bare {
    True,
    Integer(i64),
    /// A value of a type that no directive has.
    Other,
}

/// The members of a dictionary in their order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Members(Vec<(String, Bare)>);

impl Members {
    /// Reads the lines of a field. `None` if the whole of it is malformed.
    pub(super) fn of<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Option<Self> {
        let lines: Vec<_> = lines.collect();
        let joined = lines.join(&b", "[..]);
        let mut input = Input(joined.trim_ascii());
        let mut members = Self::default();
        while !input.0.is_empty() {
            let key = input.key()?;
            let value = match input.take(b'=') {
                true => input.value()?,
                false => Bare::True,
            };
            input.parameters()?;
            // The last of several counts (§3.2).
            members.0.retain(|(other, _)| *other != key);
            members.0.push((key, value));
            input.space();
            if input.0.is_empty() {
                break;
            }
            if !input.take(b',') {
                return None;
            }
            input.space();
            if input.0.is_empty() {
                return None;
            }
        }
        Some(members)
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, Bare)> {
        self.0.iter().map(|(key, value)| (key.as_str(), *value))
    }
}

/// The rest that is to be read (§4.2).
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn peek(&self) -> Option<u8> {
        self.0.first().copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let is_there = self.peek() == Some(byte);
        if is_there {
            self.0 = &self.0[1..];
        }
        is_there
    }

    fn take_while(&mut self, belongs: impl Fn(u8) -> bool) -> &[u8] {
        let end = self.0.iter().position(|&byte| !belongs(byte));
        let (taken, rest) = self.0.split_at(end.unwrap_or(self.0.len()));
        self.0 = rest;
        taken
    }

    fn space(&mut self) {
        self.take_while(|byte| matches!(byte, b' ' | b'\t'));
    }

    fn key(&mut self) -> Option<String> {
        if !matches!(self.peek()?, b'a'..=b'z' | b'*') {
            return None;
        }
        let key = self.take_while(
            |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'.' | b'*'),
        );
        String::from_utf8(key.to_vec()).ok()
    }

    fn parameters(&mut self) -> Option<()> {
        while self.take(b';') {
            self.space();
            self.key()?;
            if self.take(b'=') {
                self.bare()?;
            }
        }
        Some(())
    }

    fn value(&mut self) -> Option<Bare> {
        if !self.take(b'(') {
            return self.bare();
        }
        loop {
            self.space();
            if self.take(b')') {
                return Some(Bare::Other);
            }
            self.bare()?;
            self.parameters()?;
            if !matches!(self.peek()?, b' ' | b')') {
                return None;
            }
        }
    }

    fn bare(&mut self) -> Option<Bare> {
        match self.peek()? {
            b'-' | b'0'..=b'9' => self.number(),
            b'"' => self.string(),
            b'?' => {
                self.0 = &self.0[1..];
                match (self.take(b'1'), self.take(b'0')) {
                    (true, _) => Some(Bare::True),
                    (false, true) => Some(Bare::Other),
                    (false, false) => None,
                }
            }
            b':' => {
                self.0 = &self.0[1..];
                self.take_while(|byte| byte != b':');
                self.take(b':').then_some(Bare::Other)
            }
            byte if byte.is_ascii_alphabetic() || byte == b'*' => {
                self.take_while(|byte| {
                    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(&byte)
                });
                Some(Bare::Other)
            }
            _ => None,
        }
    }

    fn number(&mut self) -> Option<Bare> {
        let sign = if self.take(b'-') { -1 } else { 1 };
        let digits = self.take_while(|byte| byte.is_ascii_digit());
        if digits.is_empty() || digits.len() > 15 {
            return None;
        }
        let number: i64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
        if !self.take(b'.') {
            return Some(Bare::Integer(sign * number));
        }
        let fraction = self.take_while(|byte| byte.is_ascii_digit());
        (1..=3).contains(&fraction.len()).then_some(Bare::Other)
    }

    fn string(&mut self) -> Option<Bare> {
        self.0 = &self.0[1..];
        loop {
            self.take_while(|byte| (b' '..=b'~').contains(&byte) && !matches!(byte, b'"' | b'\\'));
            if self.take(b'"') {
                return Some(Bare::Other);
            }
            if !self.take(b'\\') || !(self.take(b'"') || self.take(b'\\')) {
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_read_or_all_are_refused() {
        let cases: &[(&[&str], Option<&[(&str, Bare)]>)] = &[
            (&[""], Some(&[])),
            (&["a"], Some(&[("a", Bare::True)])),
            (&["a;x=1;y"], Some(&[("a", Bare::True)])),
            (
                &["a=?1, b=?0"],
                Some(&[("a", Bare::True), ("b", Bare::Other)]),
            ),
            (&["a=10"], Some(&[("a", Bare::Integer(10))])),
            (&["a=-10"], Some(&[("a", Bare::Integer(-10))])),
            (&["a=1.5"], Some(&[("a", Bare::Other)])),
            (
                &["a=1 ,\tb"],
                Some(&[("a", Bare::Integer(1)), ("b", Bare::True)]),
            ),
            (
                &["a=1", "b"],
                Some(&[("a", Bare::Integer(1)), ("b", Bare::True)]),
            ),
            (
                &["a=1, b, a=2"],
                Some(&[("b", Bare::True), ("a", Bare::Integer(2))]),
            ),
            (&["a=\"x, \\\"y\""], Some(&[("a", Bare::Other)])),
            (&["a=(1 \"b\";c d)"], Some(&[("a", Bare::Other)])),
            (&["a=:YWI=:"], Some(&[("a", Bare::Other)])),
            (&["a=token/x"], Some(&[("a", Bare::Other)])),
            (&["A=1"], None),
            (&["a=1,"], None),
            (&["a=1 b"], None),
            (&["a="], None),
            (&["a=1."], None),
            (&["a=\"x"], None),
            (&["a=(1"], None),
            (&["a=1234567890123456"], None),
            (&["=1"], None),
        ];
        for (lines, want) in cases {
            let got = Members::of(lines.iter().map(|line| line.as_bytes()));
            let got = got.map(|it| {
                let members = it.iter();
                let members = members.map(|(key, value)| (key.to_owned(), value));
                members.collect::<Vec<_>>()
            });
            let want = want.map(|it| {
                let members = it.iter();
                let members = members.map(|(key, value)| ((*key).to_owned(), *value));
                members.collect::<Vec<_>>()
            });
            assert_eq!(got, want, "{lines:?}");
        }
    }
}
