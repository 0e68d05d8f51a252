//! Shapes as text.

use std::fmt::Write as _;

/// A picture, in pixels from the upper left corner.
#[derive(Debug)]
pub(in crate::report) struct Svg {
    width: f64,
    height: f64,
    title: String,
    body: String,
}

/// The part of a text that is at its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::report) enum Anchor {
    /// Begin of the text.
    Start,
    /// Middle of the text.
    Middle,
    /// End of the text.
    End,
}

/// The shape of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::report) enum Marker {
    /// Our measurement.
    Dot,
    /// The paper's measurement.
    Diamond,
    /// A session that was given up: more than shown.
    Up,
}

impl Svg {
    /// Makes an empty picture. Screen readers read the title.
    pub(in crate::report) fn new(width: f64, height: f64, title: &str) -> Self {
        Self {
            width,
            height,
            title: title.to_owned(),
            body: String::new(),
        }
    }

    /// Draws a straight line.
    pub(in crate::report) fn line(&mut self, from: (f64, f64), to: (f64, f64), class: &str) {
        let _ = writeln!(
            self.body,
            r#"<line class="{class}" x1="{}" y1="{}" x2="{}" y2="{}"/>"#,
            px(from.0),
            px(from.1),
            px(to.0),
            px(to.1)
        );
    }

    /// Draws lines from point to point, each list on its own.
    pub(in crate::report) fn polylines(&mut self, lines: &[Vec<(f64, f64)>], class: &str) {
        let mut path = String::new();
        for line in lines {
            for (i, (x, y)) in line.iter().enumerate() {
                let command = if i == 0 { 'M' } else { 'L' };
                let _ = write!(path, "{command}{} {}", px(*x), px(*y));
            }
        }
        if !path.is_empty() {
            let _ = writeln!(self.body, r#"<path class="{class}" d="{path}"/>"#);
        }
    }

    /// Draws a filled outline.
    pub(in crate::report) fn polygon(&mut self, points: &[(f64, f64)], class: &str) {
        let points: Vec<String> = points
            .iter()
            .map(|(x, y)| format!("{},{}", px(*x), px(*y)))
            .collect();
        let _ = writeln!(
            self.body,
            r#"<polygon class="{class}" points="{}"/>"#,
            points.join(" ")
        );
    }

    /// Draws a rectangle. `fill` replaces the class's colour, and `hint` appears under the pointer.
    pub(in crate::report) fn rect(
        &mut self,
        corner: (f64, f64),
        size: (f64, f64),
        class: &str,
        fill: Option<&str>,
        hint: &str,
    ) {
        let fill = fill.map_or_else(String::new, |fill| format!(r#" fill="{fill}""#));
        let shape = format!(
            r#"<rect class="{class}" x="{}" y="{}" width="{}" height="{}"{fill}"#,
            px(corner.0),
            px(corner.1),
            px(size.0),
            px(size.1)
        );
        self.with_hint(&shape, "rect", hint);
    }

    /// Draws a text on one line.
    pub(in crate::report) fn text(
        &mut self,
        at: (f64, f64),
        anchor: Anchor,
        class: &str,
        text: &str,
    ) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let _ = writeln!(
            self.body,
            r#"<text class="{class}" x="{}" y="{}" text-anchor="{anchor}">{}</text>"#,
            px(at.0),
            px(at.1),
            escape(text)
        );
    }

    /// Draws a point.
    pub(in crate::report) fn marker(
        &mut self,
        at: (f64, f64),
        shape: Marker,
        class: &str,
        hint: &str,
    ) {
        let (x, y) = at;
        let path = |points: &[(f64, f64)]| {
            let points: Vec<String> = points
                .iter()
                .map(|(dx, dy)| format!("{},{}", px(x + dx), px(y + dy)))
                .collect();
            format!(r#"<polygon class="{class}" points="{}""#, points.join(" "))
        };
        match shape {
            Marker::Dot => {
                let circle = format!(
                    r#"<circle class="{class}" cx="{}" cy="{}" r="3.2""#,
                    px(x),
                    px(y)
                );
                self.with_hint(&circle, "circle", hint);
            }
            Marker::Diamond => {
                let shape = path(&[(0.0, -5.0), (5.0, 0.0), (0.0, 5.0), (-5.0, 0.0)]);
                self.with_hint(&shape, "polygon", hint);
            }
            Marker::Up => {
                let shape = path(&[(0.0, -5.0), (4.5, 3.5), (-4.5, 3.5)]);
                self.with_hint(&shape, "polygon", hint);
            }
        }
    }

    fn with_hint(&mut self, open: &str, element: &str, hint: &str) {
        let _ = if hint.is_empty() {
            writeln!(self.body, "{open}/>")
        } else {
            writeln!(
                self.body,
                "{open}><title>{}</title></{element}>",
                escape(hint)
            )
        };
    }

    /// Returns the picture as an element of a page.
    pub(in crate::report) fn finish(self) -> String {
        let (width, height) = (px(self.width), px(self.height));
        let title = escape(&self.title);
        format!(
            r#"<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" aria-label="{title}"><title>{title}</title>
{}</svg>
"#,
            self.body
        )
    }
}

/// Formats a coordinate to a tenth of a pixel.
fn px(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// Escapes a text for HTML and SVG, also in quoted attributes.
pub(in crate::report) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}
