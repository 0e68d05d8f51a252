//! The paper's numbers that belong to a cell and arm.

use super::View;
use crate::experiment::{Axis, Cell};
use crate::report::figure::PaperValue;

impl View<'_> {
    /// Returns the paper's number of an arm in a cell.
    pub(super) fn paper(&self, cell: &Cell, arm: Option<&str>) -> Option<&PaperValue> {
        self.common.paper_values.iter().find(|value| {
            let here = |(axis, text): (&Axis, &String)| cell.get(*axis) == Some(text.as_str());
            value.arm.as_deref() == arm && value.cell.iter().all(here)
        })
    }

    /// Whether the paper has any number of an arm.
    pub(super) fn is_in_paper(&self, arm: &str) -> bool {
        let values = &self.common.paper_values;
        values.iter().any(|value| value.arm.as_deref() == Some(arm))
    }
}
