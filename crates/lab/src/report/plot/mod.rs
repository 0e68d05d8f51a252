//! A small plotting layer: SVG that takes its colours from the page.

mod color;
mod contour;
mod frame;
mod scale;
mod svg;

pub(in crate::report) use color::{diverging, on, sequential};
pub(in crate::report) use contour::zero_line;
pub(in crate::report) use frame::{Axis, Frame};
pub(in crate::report) use scale::Scale;
pub(in crate::report) use svg::{Anchor, Marker, escape};

/// Returns the class of a series by its index: colours, and dashes from the ninth on.
pub(in crate::report) fn series_class(index: usize) -> String {
    const COLORS: usize = 8;
    match index / COLORS {
        0 => format!("s{}", index % COLORS),
        round => format!("s{} d{}", index % COLORS, (round - 1) % 3 + 1),
    }
}
