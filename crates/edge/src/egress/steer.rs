//! Means that bring connections onto an egress route.

use super::Steer;
use crate::marked::Marks;

/// Means that bring connections onto an egress route here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SteerBy {
    /// Marks of their packets, also while they live.
    Marks,
    /// EPE addresses in `Alt-Svc`.
    Addresses,
    /// Nothing: marks were asked for, and can't be set.
    Nothing,
}

impl SteerBy {
    /// Means that the configuration wants, as far as this process may use it.
    pub(super) fn of(wanted: Steer) -> Self {
        match (wanted, Marks::probe()) {
            (Steer::Address, _) => Self::Addresses,
            (Steer::Auto | Steer::Mark, Ok(())) => Self::Marks,
            (Steer::Auto, Err(error)) => {
                tracing::warn!(
                    "marking packets, which brings connections onto an egress path: {error}; only \
                     new HTTP/3 connections are steered, by address (CAP_NET_ADMIN is needed for \
                     the others)"
                );
                Self::Addresses
            }
            (Steer::Mark, Err(error)) => {
                tracing::error!(
                    "marking packets, as egress.steer = \"mark\" asks for: {error}; connections \
                     stay on the plain way (CAP_NET_ADMIN is needed)"
                );
                Self::Nothing
            }
        }
    }
}
