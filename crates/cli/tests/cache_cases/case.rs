//! A case: requests, the origin's answers to them, and the expectations.

use std::time::Duration;

/// The meaning of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// It breaks a requirement.
    Required,
    /// It asks the origin without need.
    Optimal,
    /// It behaves differently, as it may.
    Check,
}

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Required, Self::Optimal, Self::Check];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Required => "required",
            Self::Optimal => "optimal",
            Self::Check => "check",
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) id: String,
    /// The specification that says so.
    pub(crate) section: &'static str,
    pub(crate) kind: Kind,
    /// The behaviour in words.
    pub(crate) claim: String,
    pub(crate) steps: Vec<Step>,
}

/// A requirement of the specification.
pub(crate) fn required(
    id: impl Into<String>,
    section: &'static str,
    claim: impl Into<String>,
    steps: impl Into<Vec<Step>>,
) -> Case {
    case(Kind::Required, id, section, claim, steps)
}

/// A use of the cache that the specification allows, and that spares the origin a request.
pub(crate) fn optimal(
    id: impl Into<String>,
    section: &'static str,
    claim: impl Into<String>,
    steps: impl Into<Vec<Step>>,
) -> Case {
    case(Kind::Optimal, id, section, claim, steps)
}

/// A behaviour that the specification leaves open.
pub(crate) fn check(
    id: impl Into<String>,
    section: &'static str,
    claim: impl Into<String>,
    steps: impl Into<Vec<Step>>,
) -> Case {
    case(Kind::Check, id, section, claim, steps)
}

fn case(
    kind: Kind,
    id: impl Into<String>,
    section: &'static str,
    claim: impl Into<String>,
    steps: impl Into<Vec<Step>>,
) -> Case {
    Case {
        id: id.into(),
        section,
        kind,
        claim: claim.into(),
        steps: steps.into(),
    }
}

/// A request, the origin's answer if it is asked meanwhile, and the expectations.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) method: &'static str,
    /// Follows the case's own path.
    pub(crate) suffix: &'static str,
    /// Whole lines of the request's head.
    pub(crate) fields: Vec<String>,
    pub(crate) content: Option<&'static str>,
    /// Before the request.
    pub(crate) pause: Duration,
    /// Clients that make the request at the same time.
    pub(crate) clients: usize,
    pub(crate) answer: Answer,
    /// Whether the case is not about this step: if it does not meet an expectation, nothing is judged.
    pub(crate) is_setup: bool,
    pub(crate) wants: Vec<Want>,
}

/// An expectation of a step. Steps have numbers, from 0 on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    /// The origin is not asked, and the content is that of a former response.
    Stored,
    /// The origin is asked.
    Asked,
    /// The origin is asked this often at most.
    AskedAtMost(usize),
    /// The origin is asked this often at least.
    AskedAtLeast(usize),
    /// The content is not that of the first response.
    Newer,
    /// The origin is asked whether a validator is still valid.
    Conditional,
    Status(u16),
    /// Any status below 500.
    AnyStatus,
    /// The status is 500 or above, or the response breaks off.
    Error,
    /// The response has this field with this value; the lines of several are joined by commas.
    Field(&'static str, String),
    /// One of the lines of this field contains this text.
    Contains(&'static str, &'static str),
    Lacks(&'static str),
    /// The field has the value that it had in the response of a step.
    SameField(&'static str, usize),
    Content(&'static str),
    /// The content is that of the response of a step.
    ContentOf(usize),
    /// `Age` is within these bounds, in seconds.
    Age(u64, u64),
    /// An interim response with this status came.
    Interim(u16),
    /// The origin sees this field with this value.
    Sees(&'static str, String),
    SeesNot(&'static str),
}

pub(crate) fn get() -> Step {
    send("GET")
}

pub(crate) fn head() -> Step {
    send("HEAD")
}

pub(crate) fn send(method: &'static str) -> Step {
    Step {
        method,
        suffix: "",
        fields: Vec::new(),
        content: None,
        pause: Duration::ZERO,
        clients: 1,
        answer: ok(""),
        is_setup: false,
        wants: Vec::new(),
    }
}

impl Step {
    pub(crate) fn at(mut self, suffix: &'static str) -> Self {
        self.suffix = suffix;
        self
    }

    /// Adds a line to the request's head.
    pub(crate) fn with(mut self, line: impl Into<String>) -> Self {
        self.fields.push(line.into());
        self
    }

    pub(crate) fn content(mut self, content: &'static str) -> Self {
        self.content = Some(content);
        self
    }

    pub(crate) fn after(mut self, pause: Duration) -> Self {
        self.pause = pause;
        self
    }

    pub(crate) fn by(mut self, clients: usize) -> Self {
        self.clients = clients;
        self
    }

    pub(crate) fn answered(mut self, answer: Answer) -> Self {
        self.answer = answer;
        self
    }

    pub(crate) fn setup(mut self) -> Self {
        self.is_setup = true;
        self
    }

    pub(crate) fn want(mut self, want: Want) -> Self {
        self.wants.push(want);
        self
    }

    pub(crate) fn stored(self) -> Self {
        self.want(Want::Stored)
    }

    pub(crate) fn asked(self) -> Self {
        self.want(Want::Asked)
    }

    pub(crate) fn conditional(self) -> Self {
        self.want(Want::Conditional)
    }

    pub(crate) fn status(self, status: u16) -> Self {
        self.want(Want::Status(status))
    }

    pub(crate) fn field(self, name: &'static str, value: impl Into<String>) -> Self {
        self.want(Want::Field(name, value.into()))
    }

    pub(crate) fn lacks(self, name: &'static str) -> Self {
        self.want(Want::Lacks(name))
    }

    pub(crate) fn content_of(self, step: usize) -> Self {
        self.want(Want::ContentOf(step))
    }

    pub(crate) fn sees(self, name: &'static str, value: impl Into<String>) -> Self {
        self.want(Want::Sees(name, value.into()))
    }
}

/// The origin's answer to a request.
///
/// Its fields are lines. `{now}`, `{now+60}` and `{now-60}` stand for dates, `{url}` for the path of the case.
/// `Date` is added where it is missing, and the content is different each time.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) fields: String,
    pub(crate) content: Option<&'static str>,
    /// The fields of the 304 that a conditional request gets.
    pub(crate) not_modified: Option<String>,
    pub(crate) late: Duration,
    pub(crate) end: End,
    /// Sent before: a 103 with these lines.
    pub(crate) hints: Option<&'static str>,
}

/// The end of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Whole,
    /// The connection ends before the answer.
    HangsUp,
    /// The connection ends before `Content-Length` is reached.
    Cut,
    /// The connection ends in the middle of chunks.
    CutChunks,
}

pub(crate) fn ok(fields: impl Into<String>) -> Answer {
    answer(200, fields)
}

pub(crate) fn answer(status: u16, fields: impl Into<String>) -> Answer {
    Answer {
        status,
        fields: fields.into(),
        content: None,
        not_modified: None,
        late: Duration::ZERO,
        end: End::Whole,
        hints: None,
    }
}

/// The origin closes the connection instead of answering.
pub(crate) fn no_answer() -> Answer {
    ok("").ending(End::HangsUp)
}

impl Answer {
    pub(crate) fn saying(mut self, content: &'static str) -> Self {
        self.content = Some(content);
        self
    }

    /// Answers a conditional request by a 304 with these fields.
    pub(crate) fn or_304(mut self, fields: impl Into<String>) -> Self {
        self.not_modified = Some(fields.into());
        self
    }

    pub(crate) fn late(mut self, time: Duration) -> Self {
        self.late = time;
        self
    }

    pub(crate) fn ending(mut self, end: End) -> Self {
        self.end = end;
        self
    }

    pub(crate) fn hinting(mut self, lines: &'static str) -> Self {
        self.hints = Some(lines);
        self
    }
}

/// A response that is stored, and stale after [`LATER`].
pub(crate) const SHORT: &str = "Cache-Control: max-age=2";

/// The pause after which two seconds have passed for a cache that counts whole ones, too.
pub(crate) const LATER: Duration = Duration::from_millis(3200);

/// A response of these fields, which a second request gets from the cache.
pub(crate) fn reuse(fields: impl Into<String>) -> [Step; 2] {
    [get().answered(ok(fields)), get().stored()]
}

/// A response of these fields, which a second request does not get from the cache.
pub(crate) fn no_reuse(fields: impl Into<String>) -> [Step; 2] {
    [get().answered(ok(fields)), get().asked()]
}

/// A response of these fields that is stored, and its use while it is fresh.
pub(crate) fn stored(fields: impl Into<String>) -> [Step; 2] {
    [get().answered(ok(fields)), get().stored().setup()]
}

/// Appends steps.
pub(crate) fn then(steps: impl Into<Vec<Step>>, more: impl Into<Vec<Step>>) -> Vec<Step> {
    let mut steps = steps.into();
    steps.extend(more.into());
    steps
}
