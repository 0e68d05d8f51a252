use std::task::Waker;

use http_body::Body as _;
use http_body_util::BodyExt;

use super::*;

fn cx() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

fn next(reader: &mut Reader) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
    Pin::new(reader).poll_frame(&mut cx())
}

fn data(polled: Poll<Option<Result<Frame<Bytes>, Broken>>>) -> Bytes {
    match polled {
        Poll::Ready(Some(Ok(frame))) => frame.into_data().unwrap(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn early_and_late_readers_get_all_of_it() {
    let flow = Flow::new(Some(6));
    let mut early = flow.reader(None).unwrap();
    assert!(next(&mut early).is_pending());
    flow.push(Bytes::from_static(b"abc"));
    assert_eq!(data(next(&mut early)), "abc");
    let late = flow.reader(None).unwrap();
    flow.push(Bytes::from_static(b"def"));
    let mut trailers = HeaderMap::new();
    trailers.insert("x", http::HeaderValue::from_static("1"));
    flow.finish(Some(trailers.clone()));
    for (reader, want) in [(early, "def"), (late, "abcdef")] {
        let collected = reader.collect().await.unwrap();
        assert_eq!(collected.trailers(), Some(&trailers));
        assert_eq!(collected.to_bytes(), want);
    }
    assert_eq!(flow.whole(&Bytes::from_static(b"g")).unwrap(), "abcdefg");
}

#[tokio::test]
async fn a_part_is_cut_out_and_waits_for_no_end() {
    let flow = Flow::new(Some(9));
    let parts = [(0..1, "a"), (2..7, "cdefg"), (3..6, "def"), (8..9, "i")];
    let readers = parts.map(|(part, want)| (flow.reader(Some(part)).unwrap(), want));
    for chunk in [&b"abc"[..], b"def", b"ghi"] {
        flow.push(Bytes::from_static(chunk));
    }
    for (reader, want) in readers {
        assert_eq!(reader.size_hint().exact(), Some(want.len() as u64));
        assert_eq!(reader.collect().await.unwrap().to_bytes(), want);
    }
}

#[test]
fn what_breaks_off_is_whole_for_nobody() {
    let flow = Flow::new(None);
    let mut reader = flow.reader(None).unwrap();
    flow.push(Bytes::from_static(b"abc"));
    flow.break_off("reset");
    flow.break_off("another reason");
    assert_eq!(data(next(&mut reader)), "abc");
    let Poll::Ready(Some(Err(error))) = next(&mut reader) else {
        panic!("no error");
    };
    assert!(error.to_string().ends_with(": reset"), "{error}");
}

#[test]
fn content_that_is_not_kept_goes_at_the_pace_of_the_slowest() {
    let flow = Flow::new(None);
    let (mut fast, mut slow) = (flow.reader(None).unwrap(), flow.reader(None).unwrap());
    flow.push(Bytes::from_static(b"0"));
    flow.stop_keeping();
    for _ in 1..AHEAD {
        assert_eq!(flow.poll_wanted(&cx()), Poll::Ready(true));
        flow.push(Bytes::from_static(b"1"));
    }
    assert!(flow.poll_wanted(&cx()).is_pending());
    while next(&mut fast).is_ready() {}
    assert!(
        flow.poll_wanted(&cx()).is_pending(),
        "the other has read nothing"
    );
    assert_eq!(data(next(&mut slow)), "0");
    assert_eq!(flow.poll_wanted(&cx()), Poll::Ready(true));
    assert!(flow.reader(None).is_none(), "the beginning is gone");
    drop(slow);
    assert_eq!(flow.poll_wanted(&cx()), Poll::Ready(true));
    drop(fast);
    assert_eq!(flow.poll_wanted(&cx()), Poll::Ready(false));
    flow.finish(None);
    assert_eq!(flow.whole(&Bytes::new()), None, "it was not kept");
}
