use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Wake, Waker};

use http::HeaderValue;
use http_body_util::StreamBody;
use proptest::prelude::*;

use super::super::encoder::tests::decode;
use super::*;
use crate::files::Coding;

/// A turn of the inner body.
#[derive(Clone, Debug)]
enum Step {
    Data(Vec<u8>),
    /// Nothing is there yet.
    Pause,
    Trailers,
    Fails,
}

fn lease() -> Lease {
    Lease::take(0, u64::MAX).unwrap()
}

/// The coded form of a body of these steps.
fn coded(coding: Coding, steps: Vec<Step>) -> Coded {
    counted(coding, steps).0
}

/// The same, and the number of bytes that the inner body has handed over.
fn counted(coding: Coding, steps: Vec<Step>) -> (Coded, Arc<AtomicUsize>) {
    let mut steps = VecDeque::from(steps);
    let handed = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&handed);
    let frames = futures_util::stream::poll_fn(move |_| match steps.pop_front() {
        None => Poll::Ready(None),
        Some(Step::Pause) => Poll::Pending,
        Some(Step::Data(data)) => {
            count.fetch_add(data.len(), Relaxed);
            Poll::Ready(Some(Ok(Frame::data(data.into()))))
        }
        Some(Step::Trailers) => {
            let mut trailers = HeaderMap::new();
            trailers.insert("x-sum", HeaderValue::from_static("1"));
            trailers.insert("content-digest", HeaderValue::from_static("x"));
            Poll::Ready(Some(Ok(Frame::trailers(trailers))))
        }
        Some(Step::Fails) => Poll::Ready(Some(Err(BoxError::from("broken off")))),
    });
    let level = 5;
    let settings = Settings { coding, level };
    let body = Coded::new(Body::boxed(StreamBody::new(frames)), settings, lease());
    (body, handed)
}

/// The end of a body, or a pause of it.
#[derive(Debug, PartialEq, Eq)]
enum Stop {
    Pause,
    End(Option<HeaderMap>),
    Error(String),
}

/// Counts the calls for another turn.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

/// Reads until there is nothing for now.
fn read(body: &mut Coded, bytes: &mut Vec<u8>) -> Stop {
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    let mut cx = Context::from_waker(&waker);
    let mut trailers = None;
    loop {
        let before = woken.0.load(Relaxed);
        match Pin::new(&mut *body).poll_frame(&mut cx) {
            Poll::Pending if woken.0.load(Relaxed) > before => {}
            Poll::Pending => return Stop::Pause,
            Poll::Ready(None) => return Stop::End(trailers),
            Poll::Ready(Some(Err(error))) => return Stop::Error(error.to_string()),
            Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                Ok(data) => bytes.extend_from_slice(&data),
                Err(frame) => trailers = frame.into_trailers().ok(),
            },
        }
    }
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => prop::collection::vec(any::<u8>(), 0..50).prop_map(Step::Data),
        1 => (0_usize..200_000).prop_map(|len| Step::Data(b"<p>hello</p>\n".repeat(len / 13))),
        2 => Just(Step::Pause),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn content_comes_back_and_no_pause_holds_any_of_it(
        coding in prop::sample::select(Coding::ALL.to_vec()),
        steps in prop::collection::vec(step(), 0..10),
    ) {
        let mut content = Vec::new();
        for step in &steps {
            if let Step::Data(data) = step {
                content.extend_from_slice(data);
            }
        }
        let (mut body, handed) = counted(coding, steps);
        let mut bytes = Vec::new();
        loop {
            match read(&mut body, &mut bytes) {
                Stop::Pause => {
                    let decoded = decode(coding, &bytes);
                    let handed = handed.load(Relaxed);
                    prop_assert!(decoded == content[..handed], "{} of {handed}", decoded.len());
                }
                Stop::End(trailers) => {
                    prop_assert_eq!(trailers, None);
                    break;
                }
                Stop::Error(error) => return Err(TestCaseError::fail(error)),
            }
        }
        prop_assert!(body.is_end_stream());
        prop_assert!(decode(coding, &bytes) == content);
    }
}

#[test]
fn trailers_come_after_the_content_and_without_digests() {
    for coding in Coding::ALL {
        let mut body = coded(coding, vec![Step::Data(b"hello".to_vec()), Step::Trailers]);
        let mut bytes = Vec::new();
        let Stop::End(Some(trailers)) = read(&mut body, &mut bytes) else {
            panic!("no trailers");
        };
        assert_eq!(decode(coding, &bytes), b"hello");
        assert_eq!(trailers.len(), 1);
        assert_eq!(trailers["x-sum"], "1");
    }
}

#[test]
fn a_body_that_breaks_off_ends_with_its_error() {
    for coding in Coding::ALL {
        let steps = vec![Step::Data(b"hello".to_vec()), Step::Pause, Step::Fails];
        let mut body = coded(coding, steps);
        let mut bytes = Vec::new();
        assert_eq!(
            read(&mut body, &mut bytes),
            Stop::Error("broken off".to_owned())
        );
        assert_eq!(decode(coding, &bytes), b"hello", "bytes before the error");
        assert_eq!(read(&mut body, &mut bytes), Stop::End(None));
    }
}

#[test]
fn an_encoder_is_made_for_the_first_byte_and_goes_with_the_last() {
    let steps = vec![Step::Pause, Step::Data(b"hello".to_vec()), Step::Pause];
    let mut body = coded(Coding::Gzip, steps);
    let mut bytes = Vec::new();
    assert_eq!(read(&mut body, &mut bytes), Stop::Pause);
    assert!(body.encoder.is_none() && bytes.is_empty());
    // The pause after the bytes is spent on their flush.
    assert_eq!(read(&mut body, &mut bytes), Stop::End(None));
    assert!(body.encoder.is_none() && body.lease.is_none());
}

#[test]
fn a_turn_that_is_over_flushes_nothing() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(async {
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(Arc::clone(&woken));
        let mut cx = Context::from_waker(&waker);
        let mut body = coded(Coding::Gzip, vec![Step::Pause]);
        body.waiting = Bytes::from_static(b"hello");
        assert!(body.encode().unwrap().is_empty() && body.holds);
        while coop::has_budget_remaining() {
            let Poll::Ready(turn) = coop::poll_proceed(&mut cx) else {
                break;
            };
            turn.made_progress();
        }
        let before = woken.0.load(Relaxed);
        assert!(Pin::new(&mut body).poll_frame(&mut cx).is_pending());
        assert!(body.holds);
        assert!(woken.0.load(Relaxed) > before, "it goes on in another turn");
    });
}

#[test]
fn a_turn_takes_one_slice() {
    let mut cx = Context::from_waker(Waker::noop());
    let mut body = coded(Coding::Br, vec![Step::Data(vec![7; 10 * SLICE])]);
    for turn in 1..10 {
        assert!(Pin::new(&mut body).poll_frame(&mut cx).is_pending());
        assert_eq!(body.waiting.len(), (10 - turn) * SLICE);
    }
}
