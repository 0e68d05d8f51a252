//! Colours by value. All palettes keep their order for colour-blind readers.

/// `ColorBrewer`'s RdBu, softened: red over light grey to blue.
const DIVERGING: [[u8; 3]; 7] = [
    [0xb2, 0x18, 0x2b],
    [0xe5, 0x7a, 0x5c],
    [0xf9, 0xcf, 0xb8],
    [0xf4, 0xf4, 0xf2],
    [0xc3, 0xdd, 0xee],
    [0x60, 0xa5, 0xd0],
    [0x1f, 0x62, 0xa8],
];

/// Viridis.
const SEQUENTIAL: [[u8; 3]; 5] = [
    [0x44, 0x01, 0x54],
    [0x3b, 0x52, 0x8b],
    [0x21, 0x91, 0x8c],
    [0x5e, 0xc9, 0x62],
    [0xfd, 0xe7, 0x25],
];

/// Returns the colour of a value from -1 (red) over 0 (light grey) to 1 (blue).
pub(in crate::report) fn diverging(value: f64) -> String {
    hex(between(&DIVERGING, f64::midpoint(value, 1.0)))
}

/// Returns the colour of a value from 0 (dark) to 1 (bright).
pub(in crate::report) fn sequential(value: f64) -> String {
    hex(between(&SEQUENTIAL, value))
}

/// Returns the class of a text that is legible on a colour.
pub(in crate::report) fn on(color: &str) -> &'static str {
    let channel = |at: usize| {
        let part = color.get(at..at + 2).unwrap_or("ff");
        f64::from(u8::from_str_radix(part, 16).unwrap_or(255)) / 255.0
    };
    // Relative luminance, WCAG 2.
    let linear = |c: f64| {
        if c <= 0.04045 {
            c / 12.92
        } else {
            ((c + 0.055) / 1.055).powf(2.4)
        }
    };
    let luminance =
        0.2126 * linear(channel(1)) + 0.7152 * linear(channel(3)) + 0.0722 * linear(channel(5));
    if luminance > 0.25 {
        "on-light"
    } else {
        "on-dark"
    }
}

fn between(palette: &[[u8; 3]], value: f64) -> [u8; 3] {
    let position = value.clamp(0.0, 1.0) * (palette.len() - 1) as f64;
    let (low, high) = (
        palette[position.floor() as usize],
        palette[position.ceil() as usize],
    );
    std::array::from_fn(|i| {
        let (low, high) = (f64::from(low[i]), f64::from(high[i]));
        (low + (high - low) * position.fract()).round() as u8
    })
}

fn hex([r, g, b]: [u8; 3]) -> String {
    format!("#{r:02x}{g:02x}{b:02x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_and_middle_are_the_palette_s() {
        assert_eq!(diverging(-1.0), "#b2182b");
        assert_eq!(diverging(0.0), "#f4f4f2");
        assert_eq!(diverging(9.0), "#1f62a8");
        assert_eq!(sequential(0.0), "#440154");
        assert_eq!(sequential(1.0), "#fde725");
    }

    #[test]
    fn text_contrasts() {
        assert_eq!(on(&diverging(0.0)), "on-light");
        assert_eq!(on(&diverging(-1.0)), "on-dark");
        assert_eq!(on(&sequential(0.0)), "on-dark");
        assert_eq!(on(&sequential(1.0)), "on-light");
    }
}
