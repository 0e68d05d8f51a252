use hikyaku_core::gain::Verdict;

use super::fakes::{DAY, count, gain, noon};
use super::*;

fn responses(gain: &Gain, since: Duration) -> u64 {
    let report = gain.report(since, None, Duration::ZERO);
    report.responses.hikyaku + report.responses.hold_back
}

#[tokio::test(start_paused = true)]
async fn days_are_kept_and_come_back_from_the_store() {
    let former = gain(noon(), 8192);
    count(&former, 0..600);
    tokio::time::advance(DAY).await;
    count(&former, 300..900);
    assert_eq!(responses(&former, USUAL), 1200);
    let report = former.report(USUAL, Some(By::Site), Duration::ZERO);
    assert_eq!(report.clients.hikyaku + report.clients.hold_back, 900);
    assert_eq!(report.verdict, Verdict::Undecided);
    assert_eq!(report.groups[0].name, "a.example");
    assert_eq!(responses(&former, DAY / 4), 600, "today alone");

    former.hurry();
    let changes = former.changes();
    assert_eq!(changes.len(), 2);
    former.hurry();
    assert!(former.changes().is_empty(), "nothing is new");
    let clock = Clock::starting_at(former.clock.now());
    let next = gain(clock, 8192);
    for (day, bytes) in &changes {
        assert!(next.insert(*day, bytes.as_ref().unwrap()));
    }
    assert!(!next.insert(Day(1), b"nonsense"));
    assert_eq!(responses(&next, USUAL), 1200);
    count(&next, 0..100);
    assert_eq!(responses(&next, USUAL), 1300);
    let report = next.report(USUAL, None, Duration::ZERO);
    assert_eq!(report.clients.hikyaku + report.clients.hold_back, 900);

    tokio::time::advance(10 * DAY).await;
    count(&next, 0..1);
    assert_eq!(responses(&next, 30 * DAY), 1);
    next.hurry();
    let changes = next.changes();
    let (gone, new): (Vec<_>, Vec<_>) = changes.iter().partition(|(_, bytes)| bytes.is_none());
    assert_eq!((gone.len(), new.len()), (2, 1), "old days are removed");
}

#[tokio::test(start_paused = true)]
async fn changes_come_each_minute() {
    let gain = gain(noon(), 8192);
    count(&gain, 0..10);
    assert!(gain.changes().is_empty());
    tokio::time::advance(Duration::from_secs(59)).await;
    assert!(gain.changes().is_empty());
    tokio::time::advance(Duration::from_secs(2)).await;
    assert_eq!(gain.changes().len(), 1);
    gain.mark_all_changed();
    assert_eq!(gain.changes().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn memory_is_bounded_and_clients_are_estimated() {
    let gain = gain(noon(), 256);
    count(&gain, 0..40_000);
    let report = gain.report(USUAL, None, Duration::ZERO);
    assert_eq!(
        report.responses.hikyaku + report.responses.hold_back,
        40_000
    );
    assert!(report.sampled.hikyaku <= 256, "{:?}", report.sampled);
    let clients = (report.clients.hikyaku + report.clients.hold_back) as f64;
    assert!((clients / 40_000.0 - 1.0).abs() < 0.2, "{clients}");
}

#[tokio::test(start_paused = true)]
async fn reports_are_made_seldom() {
    let gain = gain(noon(), 8192);
    count(&gain, 0..30);
    let first = gain.report(USUAL, None, SCRAPED);
    count(&gain, 30..60);
    tokio::time::advance(Duration::from_secs(9)).await;
    assert!(Arc::ptr_eq(&first, &gain.report(USUAL, None, SCRAPED)));
    tokio::time::advance(Duration::from_secs(2)).await;
    let next = gain.report(USUAL, None, SCRAPED);
    assert_eq!(next.responses.hikyaku + next.responses.hold_back, 60);
}
