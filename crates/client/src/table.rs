//! Tables for people.

use std::io::{self, Write};

/// A table whose columns are as wide as their widest cell.
pub(super) struct Table {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(super) fn new(header: &[&str]) -> Self {
        Self {
            header: header.iter().map(ToString::to_string).collect(),
            rows: Vec::new(),
        }
    }

    pub(super) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Writes the table: the first column flush left, the others flush right.
    pub(super) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let lines: Vec<_> = std::iter::once(&self.header).chain(&self.rows).collect();
        let width = |column: usize| {
            let cells = lines.iter().filter_map(|line| line.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.header.len()).map(width).collect();
        for line in lines {
            let mut text = String::new();
            for (column, (cell, width)) in line.iter().zip(&widths).enumerate() {
                if column == 0 {
                    text.push_str(&format!("{cell:<width$}"));
                } else {
                    text.push_str(&format!("  {cell:>width$}"));
                }
            }
            writeln!(out, "{}", text.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let mut table = Table::new(&["url", "ms"]);
        table.row(vec!["/é".to_owned(), "1.5".to_owned()]);
        table.row(vec!["/long".to_owned(), "100".to_owned()]);
        let mut out = Vec::new();
        table.write(&mut out).unwrap();
        let want = "url     ms\n/é     1.5\n/long  100\n";
        assert_eq!(String::from_utf8(out).unwrap(), want);
    }
}
