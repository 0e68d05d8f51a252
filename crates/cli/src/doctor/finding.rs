//! The result of a check.

use serde::Serialize;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Severity {
    /// Nothing is missing.
    Ok,
    /// More would be possible.
    Note,
    /// Some clients, or some load, are served badly.
    Warn,
    /// The server would not start, or clients refuse it.
    Fail,
}

impl Severity {
    /// As it is printed.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    /// The check's name, which stays the same over versions.
    pub(crate) id: &'static str,
    pub(crate) severity: Severity,
    /// The fact that was found.
    pub(crate) state: String,
    /// The consequence for clients; empty if all is well.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) effect: String,
    /// The command or setting that mends it; empty if all is well.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) mend: String,
}

impl Finding {
    pub(crate) fn ok(id: &'static str, state: impl Into<String>) -> Self {
        Self::of(id, Severity::Ok, state)
    }

    pub(crate) fn note(id: &'static str, state: impl Into<String>) -> Self {
        Self::of(id, Severity::Note, state)
    }

    pub(crate) fn warn(id: &'static str, state: impl Into<String>) -> Self {
        Self::of(id, Severity::Warn, state)
    }

    pub(crate) fn fail(id: &'static str, state: impl Into<String>) -> Self {
        Self::of(id, Severity::Fail, state)
    }

    /// With its consequence for clients.
    pub(crate) fn so(mut self, effect: impl Into<String>) -> Self {
        self.effect = effect.into();
        self
    }

    /// With its remedy.
    pub(crate) fn mend(mut self, mend: impl Into<String>) -> Self {
        self.mend = mend.into();
        self
    }

    fn of(id: &'static str, severity: Severity, state: impl Into<String>) -> Self {
        Self {
            id,
            severity,
            state: state.into(),
            effect: String::new(),
            mend: String::new(),
        }
    }
}
