//! Runs cases against a cache, and judges them.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream;

use crate::case::{Case, Step, Want};
use crate::client::{Client, Place, Response};
use crate::origin::{Origin, Programme, Seen, filled};

/// The judgement of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Passed,
    /// And why.
    Failed(String),
    /// The cache did not come to the point that the case is about.
    Untried(String),
}

/// Cases at the same time. Most of their time is pauses.
const AT_ONCE: usize = 100;
/// A case that takes longer fails.
const PATIENCE: Duration = Duration::from_secs(8);

/// Runs all cases, and returns their outcomes in the same order.
///
/// A case that does not pass runs once more: on a busy machine, a response may have become stale before
/// its use.
pub(crate) async fn run(cases: &[Case], origin: &Origin, place: Place, run: &str) -> Vec<Outcome> {
    let first: Vec<&Case> = cases.iter().collect();
    let mut outcomes = run_each(&first, origin, place, run).await;
    let numbers = 0..outcomes.len();
    let left: Vec<usize> = numbers
        .filter(|&at| outcomes[at] != Outcome::Passed)
        .collect();
    let again: Vec<&Case> = left.iter().map(|&at| &cases[at]).collect();
    let second = run_each(&again, origin, place, &format!("{run}-again")).await;
    for (at, outcome) in left.into_iter().zip(second) {
        outcomes[at] = outcome;
    }
    outcomes
}

async fn run_each(cases: &[&Case], origin: &Origin, place: Place, run: &str) -> Vec<Outcome> {
    let running = cases.iter().enumerate().map(|(number, case)| async move {
        let programme = origin.register(case, run);
        let ran = tokio::time::timeout(PATIENCE, run_case(case, &programme, place));
        let late = || Outcome::Failed("no end in time".to_owned());
        (number, ran.await.unwrap_or_else(|_| late()))
    });
    let running = stream::iter(running).buffer_unordered(AT_ONCE);
    let mut outcomes: Vec<(usize, Outcome)> = running.collect().await;
    outcomes.sort_by_key(|&(number, _)| number);
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}

async fn run_case(case: &Case, programme: &Arc<Programme>, place: Place) -> Outcome {
    let mut client = Client::new(place);
    let mut responses = Vec::new();
    for (number, step) in case.steps.iter().enumerate() {
        tokio::time::sleep(step.pause).await;
        programme.begin(number);
        let response = match take(&mut client, step, programme, place).await {
            Ok(response) => response,
            // A cache may say nothing more where its origin has nothing more.
            Err(_) if step.wants.contains(&Want::Error) => Response {
                is_broken: true,
                ..Response::default()
            },
            Err(error) => return Outcome::Failed(format!("step {number}: no response: {error}")),
        };
        let seen = programme.seen(number);
        responses.push(response);
        let fault = fault(case, number, &responses, &seen, &programme.path);
        if let Some(fault) = fault {
            let text = format!("step {number}: {fault}");
            // The first response is that of the origin, whatever the case is about.
            let is_setup = step.is_setup || number == 0 && step.wants.is_empty();
            return match is_setup {
                true => Outcome::Untried(text),
                false => Outcome::Failed(text),
            };
        }
    }
    Outcome::Passed
}

/// Makes the request of a step, by all its clients. Returns the response of the first.
async fn take(
    client: &mut Client,
    step: &Step,
    programme: &Programme,
    place: Place,
) -> std::io::Result<Response> {
    let others = (1..step.clients).map(|_| async {
        let mut client = Client::new(place);
        client.send(step, &programme.path).await
    });
    let (first, others) = tokio::join!(client.send(step, &programme.path), join_all(others));
    for other in others {
        other?;
    }
    first
}

/// The first expectation of a step that is not met.
fn fault(
    case: &Case,
    number: usize,
    responses: &[Response],
    seen: &[Seen],
    path: &str,
) -> Option<String> {
    let step = &case.steps[number];
    let response = &responses[number];
    let says_status = |want: &Want| matches!(want, Want::Status(_) | Want::AnyStatus | Want::Error);
    let expected = match seen.is_empty() {
        true => responses[0].status(),
        false => step.answer.status,
    };
    let was_validated =
        seen.iter().any(|seen| seen.head.is_conditional()) && step.answer.not_modified.is_some();
    if !step.wants.iter().any(says_status) && !was_validated && response.status() != expected {
        return Some(format!(
            "the status is {}, not {expected}",
            response.status()
        ));
    }
    let mut wants = step.wants.iter();
    wants.find_map(|want| unmet(want, step, responses, number, seen, path))
}

fn unmet(
    want: &Want,
    step: &Step,
    responses: &[Response],
    number: usize,
    seen: &[Seen],
    path: &str,
) -> Option<String> {
    let response = &responses[number];
    let field = |name: &str| response.head.get(name);
    let asked = seen.len();
    let is_met = match want {
        Want::Stored => asked == 0 && is_known(step, responses, number),
        Want::Asked => asked > 0,
        Want::AskedAtMost(most) => asked <= *most,
        Want::AskedAtLeast(least) => asked >= *least,
        Want::Newer => response.content != responses[0].content,
        Want::Conditional => seen.iter().any(|seen| seen.head.is_conditional()),
        Want::Status(status) => response.status() == *status,
        Want::AnyStatus => response.status() < 500,
        Want::Error => response.is_broken || response.status() >= 500,
        Want::Field(name, value) => field(name) == Some(filled(value, path)),
        Want::Contains(name, text) => response.head.lines(name).any(|line| line.contains(text)),
        Want::Lacks(name) => field(name).is_none(),
        Want::SameField(name, step) => field(name) == responses[*step].head.get(name),
        Want::Content(content) => response.content == content.as_bytes(),
        Want::ContentOf(step) => response.content == responses[*step].content,
        Want::Age(least, most) => field("age")
            .and_then(|age| age.parse().ok())
            .is_some_and(|age: u64| (*least..=*most).contains(&age)),
        Want::Interim(status) => response.interim.contains(status),
        Want::Sees(name, value) => {
            let wanted = filled(value, path);
            seen.iter()
                .any(|seen| seen.head.get(name).as_ref() == Some(&wanted))
        }
        Want::SeesNot(name) => seen.iter().all(|seen| seen.head.get(name).is_none()),
    };
    (!is_met).then(|| {
        let got = match want {
            Want::Field(name, _) | Want::Contains(name, _) | Want::SameField(name, _) => {
                format!("{name} is {:?}", field(name))
            }
            Want::Age(..) => format!("Age is {:?}", field("age")),
            _ => format!("status {}, origin asked {asked} times", response.status()),
        };
        format!("not met: {want:?}; {got}")
    })
}

/// Whether a response has the content of a former one, where it has all content.
fn is_known(step: &Step, responses: &[Response], number: usize) -> bool {
    let response = &responses[number];
    let mut former = responses[..number].iter();
    match response.status() {
        200 if step.method == "GET" => former.any(|former| former.content == response.content),
        500.. => former.any(|former| former.status() == response.status()),
        _ => true,
    }
}
