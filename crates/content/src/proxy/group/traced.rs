//! Spans of requests to upstreams.

use std::time::Instant;

use crate::proxy::outgoing::Outgoing;
use crate::proxy::pool::{Answer, Unanswered};
use crate::proxy::upstream::{Place, Upstream};
use crate::trace::{Trace, TraceContext, UpstreamSpan};

/// A request to one upstream, in a trace.
pub(super) struct Attempt<'a> {
    trace: &'a Trace,
    context: TraceContext,
    resends: usize,
    started: Instant,
}

impl<'a> Attempt<'a> {
    /// Begins a span, whose place the upstream gets. `resends` others were asked before.
    pub(super) fn begin(trace: &'a Trace, outgoing: &mut Outgoing, resends: usize) -> Self {
        let context = trace.child();
        outgoing.is_traced(&context);
        Self {
            trace,
            context,
            resends,
            started: Instant::now(),
        }
    }

    /// Reports the span, where the trace is recorded.
    pub(super) fn end(
        self,
        upstream: &Upstream,
        outgoing: &Outgoing,
        sent: &Result<Answer, Unanswered>,
    ) {
        if !self.context.sampled {
            return;
        }
        let (address, port) = match &upstream.place {
            Place::Tcp(host) | Place::Tls(host) => (host.name.clone(), Some(host.port)),
            Place::Socket(path) => (path.display().to_string(), None),
        };
        let failure = |unanswered: &Unanswered| {
            let error = &unanswered.error;
            (!error.is_of_client()).then(|| error.into())
        };
        self.trace.spans.asked(UpstreamSpan {
            context: self.context,
            parent: self.trace.context.span,
            started: self.started,
            time: self.started.elapsed(),
            method: outgoing.method().clone(),
            url: outgoing.url(upstream),
            address,
            port,
            resends: self.resends,
            outcome: match sent {
                Ok(answer) => Ok(answer.response.status()),
                Err(unanswered) => Err(failure(unanswered)),
            },
        });
    }
}
