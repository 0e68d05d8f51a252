//! A plot's frame: axes, grid, titles, and the conversion from values to pixels.

use super::scale::Scale;
use super::svg::{Anchor, Marker, Svg};

/// One axis of a plot.
#[derive(Clone, Debug)]
pub(in crate::report) struct Axis {
    /// Positions of values.
    pub(in crate::report) scale: Scale,
    /// Title of the axis, with the unit.
    pub(in crate::report) title: String,
    /// Texts of ticks, with their values.
    pub(in crate::report) ticks: Vec<(f64, String)>,
}

impl Axis {
    /// Makes an axis with the scale's ticks, formatted by `text`.
    pub(in crate::report) fn new(
        scale: Scale,
        title: impl Into<String>,
        text: impl Fn(f64) -> String,
    ) -> Self {
        let ticks = scale.ticks().into_iter().map(|tick| (tick, text(tick)));
        Self {
            ticks: ticks.collect(),
            title: title.into(),
            scale,
        }
    }

    /// Makes an axis of named bands.
    pub(in crate::report) fn bands(names: &[String], title: impl Into<String>) -> Self {
        let ticks = names.iter().enumerate();
        Self {
            ticks: ticks.map(|(i, name)| (i as f64, name.clone())).collect(),
            title: title.into(),
            scale: Scale::Bands(names.len()),
        }
    }

    fn longest_tick(&self) -> usize {
        let lengths = self.ticks.iter().map(|(_, text)| text.chars().count());
        lengths.max().unwrap_or(0)
    }
}

/// A plot under construction.
#[derive(Debug)]
pub(in crate::report) struct Frame {
    /// The picture, for shapes without a method of the frame.
    pub(in crate::report) svg: Svg,
    x: Axis,
    y: Axis,
    left: f64,
    top: f64,
    width: f64,
    height: f64,
}

/// Width of a character of a tick, in pixels.
const TICK_CHAR: f64 = 6.4;

impl Frame {
    /// Makes a frame with axes and grid. The title stands above it and may be empty.
    pub(in crate::report) fn new(
        (width, height): (f64, f64),
        title: &str,
        x: Axis,
        y: Axis,
    ) -> Self {
        let left = (y.longest_tick() as f64 * TICK_CHAR + 14.0).max(34.0);
        let top = if title.is_empty() { 32.0 } else { 52.0 };
        let (right, bottom) = (24.0, 42.0);
        let label = [title, &y.title, "by", &x.title].join(" ");
        let mut frame = Self {
            svg: Svg::new(width, height, label.trim()),
            left,
            top,
            width: width - left - right,
            height: height - top - bottom,
            x,
            y,
        };
        frame.draw_axes(title);
        frame
    }

    fn draw_axes(&mut self, title: &str) {
        let (left, top) = (self.left, self.top);
        let (right, bottom) = (left + self.width, top + self.height);
        if !title.is_empty() {
            self.svg.text((left, 16.0), Anchor::Start, "panel", title);
        }
        let above = (left, top - 16.0);
        self.svg
            .text(above, Anchor::Start, "axis", &self.y.title.clone());
        let below = (left + self.width / 2.0, bottom + 36.0);
        self.svg
            .text(below, Anchor::Middle, "axis", &self.x.title.clone());
        for (value, text) in self.y.ticks.clone() {
            let y = self.y(value);
            if !matches!(self.y.scale, Scale::Bands(_)) {
                self.svg.line((left, y), (right, y), "grid");
            }
            self.svg
                .text((left - 7.0, y + 4.0), Anchor::End, "tick", &text);
        }
        let room = (self.x.longest_tick() as f64 + 2.0) * TICK_CHAR;
        let mut free = f64::MIN;
        for (value, text) in self.x.ticks.clone() {
            let x = self.x(value);
            if !matches!(self.x.scale, Scale::Bands(_)) {
                self.svg.line((x, top), (x, bottom), "grid");
            }
            // Dense ticks are written only if they have room.
            if x - room / 2.0 >= free || self.x.ticks.len() < 3 {
                self.svg
                    .text((x, bottom + 17.0), Anchor::Middle, "tick", &text);
                free = x + room / 2.0 - TICK_CHAR;
            }
        }
        self.svg.line((left, bottom), (right, bottom), "base");
    }

    /// Returns the pixels from the left.
    pub(in crate::report) fn x(&self, value: f64) -> f64 {
        self.left + self.width * self.x.scale.position(value)
    }

    /// Returns the pixels from above.
    pub(in crate::report) fn y(&self, value: f64) -> f64 {
        self.top + self.height * (1.0 - self.y.scale.position(value))
    }

    /// Returns the upper and lower edge, in pixels.
    pub(in crate::report) fn edges(&self) -> (f64, f64) {
        (self.top, self.top + self.height)
    }

    /// Returns the width of a band of the horizontal axis, in pixels.
    pub(in crate::report) fn band(&self) -> f64 {
        self.x(1.0) - self.x(0.0)
    }

    /// Draws a line through points.
    pub(in crate::report) fn line(&mut self, points: &[(f64, f64)], class: &str) {
        self.lines(&[points], class);
    }

    /// Draws several lines, each through its own points.
    pub(in crate::report) fn lines(&mut self, lines: &[impl AsRef<[(f64, f64)]>], class: &str) {
        let lines: Vec<_> = lines
            .iter()
            .map(|points| self.pixels(points.as_ref()))
            .collect();
        self.svg.polylines(&lines, class);
    }

    /// Fills the area between two lines over the same x: `(x, low, high)`.
    pub(in crate::report) fn area(&mut self, points: &[(f64, f64, f64)], class: &str) {
        let upper = points.iter().map(|(x, _, high)| (*x, *high));
        let lower = points.iter().rev().map(|(x, low, _)| (*x, *low));
        let outline: Vec<(f64, f64)> = upper.chain(lower).collect();
        let outline = self.pixels(&outline);
        self.svg.polygon(&outline, class);
    }

    /// Draws a point with a hint that appears under the pointer.
    pub(in crate::report) fn marker(
        &mut self,
        (x, y): (f64, f64),
        shape: Marker,
        class: &str,
        hint: &str,
    ) {
        let at = (self.x(x), self.y(y));
        self.svg.marker(at, shape, class, hint);
    }

    /// Draws a line over the whole height with a text at its upper end.
    pub(in crate::report) fn rule(&mut self, x: f64, text: &str) {
        let x = self.x(x);
        let (top, bottom) = self.edges();
        self.svg.line((x, top), (x, bottom), "rule");
        self.svg.text((x, top - 3.0), Anchor::Middle, "note", text);
    }

    fn pixels(&self, points: &[(f64, f64)]) -> Vec<(f64, f64)> {
        points
            .iter()
            .map(|(x, y)| (self.x(*x), self.y(*y)))
            .collect()
    }
}
