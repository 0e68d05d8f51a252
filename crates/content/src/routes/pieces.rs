//! Texts of the configuration with variables, such as `/new$rest`.

/// A piece of such a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    Text(&'a str),
    /// The name of a variable.
    Variable(&'a str),
}

/// Takes a text apart. A variable is `$name`, `$1`, or `${name}` where letters follow it, and `$$` is a
/// dollar sign.
///
/// # Errors
/// If a dollar sign has no name. The error is a sentence.
pub(super) fn pieces(text: &str) -> Result<Vec<Piece<'_>>, String> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        pieces.push(Piece::Text(before));
        let (piece, after) = piece(after)
            .ok_or_else(|| format!("`{text}` has a `$` without a name: `$$` is a dollar sign"))?;
        pieces.push(piece);
        rest = after;
    }
    pieces.push(Piece::Text(rest));
    pieces.retain(|piece| *piece != Piece::Text(""));
    Ok(pieces)
}

/// Splits what a dollar sign begins off the text after it.
fn piece(text: &str) -> Option<(Piece<'_>, &str)> {
    if let Some(rest) = text.strip_prefix('$') {
        return Some((Piece::Text("$"), rest));
    }
    if let Some(text) = text.strip_prefix('{') {
        let (name, rest) = text.split_once('}').filter(|(name, _)| !name.is_empty())?;
        return Some((Piece::Variable(name), rest));
    }
    let is_digit = text.starts_with(|first: char| first.is_ascii_digit());
    let end = text.find(|next: char| match is_digit {
        true => !next.is_ascii_digit(),
        false => !(next.is_ascii_alphanumeric() || next == '_'),
    });
    let (name, rest) = text.split_at(end.unwrap_or(text.len()));
    (!name.is_empty()).then_some((Piece::Variable(name), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_taken_apart() {
        use Piece::{Text, Variable};
        let cases: [(&str, &[Piece<'_>]); 6] = [
            ("", &[]),
            ("a b", &[Text("a b")]),
            ("$host$path", &[Variable("host"), Variable("path")]),
            (
                "/$1x${name}y",
                &[
                    Text("/"),
                    Variable("1"),
                    Text("x"),
                    Variable("name"),
                    Text("y"),
                ],
            ),
            ("$$1", &[Text("$"), Text("1")]),
            ("$tls_version;", &[Variable("tls_version"), Text(";")]),
        ];
        for (text, want) in cases {
            assert_eq!(pieces(text).unwrap(), want, "{text}");
        }
        for text in ["$", "a$", "$-", "${", "${}", "${a"] {
            let error = pieces(text).unwrap_err();
            assert!(error.contains(&format!("`{text}` has a `$`")), "{error}");
        }
    }
}
