//! Whether the intervals hold: hundreds of simulated weeks with a look each hour.
//!
//! `cargo test -p hikyaku-core gain::tests::calibration -- --nocapture` prints the figures of docs/gain.md.

use super::simulated::{HOURS, NETWORKS, Random, Visitor};
use crate::choice::Assignment;
use crate::gain::covariate::{Cell, changed};
use crate::gain::effect::difference;
use crate::gain::interval::ALPHA;
use crate::gain::response::MILLION;
use crate::gain::{MIN_CLIENTS, Ratio};

const WEEKS: u64 = 200;
const CLIENTS: usize = 3000;
const HOLDBACK: f64 = 0.5;

/// The findings of the looks of a week.
#[derive(Default)]
struct Week {
    /// An interval without the truth in it, at whatever look.
    missed: bool,
    /// The same at the last look.
    missed_at_end: bool,
    /// The hour in which a change showed first.
    told: Option<usize>,
    last: Option<Ratio>,
}

/// A week with a true ratio of load times.
fn week(seed: u64, truth: f64) -> Week {
    let random = &mut Random(seed << 32);
    let visitors: Vec<Visitor> = (0..CLIENTS)
        .map(|_| Visitor::new(random, HOLDBACK))
        .collect();
    let mut hours: Vec<Vec<usize>> = vec![Vec::new(); HOURS];
    for (client, visitor) in visitors.iter().enumerate() {
        for &hour in &visitor.visits {
            hours[hour].push(client);
        }
    }
    let mut sums = vec![(0.0, 0.0); CLIENTS];
    let mut networks = [Cell::default(); NETWORKS];
    let mut week = Week::default();
    for (hour, clients) in hours.iter().enumerate() {
        for &client in clients {
            let (visitor, (n, sum)) = (&visitors[client], &mut sums[client]);
            let factor = match visitor.assignment {
                Assignment::Hikyaku => truth,
                Assignment::HoldBack => 1.0,
            };
            let response = visitor.response(random, factor);
            let group = &mut networks[visitor.network][visitor.assignment.index()];
            if *n > 0.0 {
                group.remove(*sum / *n);
            }
            *n += 1.0;
            *sum += response.adjusted() as f64 / MILLION;
            group.add(*sum / *n);
        }
        let groups = changed(&networks);
        if groups.iter().all(|group| group.n >= MIN_CLIENTS as f64) {
            week.look(hour, difference(&groups).ratio(ALPHA), truth);
        }
    }
    week
}

impl Week {
    fn look(&mut self, hour: usize, ratio: Ratio, truth: f64) {
        self.missed_at_end = truth < ratio.low || truth > ratio.high;
        self.missed |= self.missed_at_end;
        if self.told.is_none() && (ratio.high < 1.0 || ratio.low > 1.0) {
            self.told = Some(hour);
        }
        self.last = Some(ratio);
    }
}

#[test]
#[expect(clippy::print_stdout, reason = "the figures of docs/gain.md")]
fn intervals_hold_over_all_looks_of_a_week() {
    println!("true change  missed at any look  missed at the end  told  half width at the end");
    for (place, change) in [0.0, -0.2, -0.08, -0.03, 0.05].into_iter().enumerate() {
        let truth = 1.0 + change;
        let weeks: Vec<Week> = (0..WEEKS)
            .map(|n| week(n + place as u64 * WEEKS, truth))
            .collect();
        let count = |is: fn(&Week) -> bool| weeks.iter().filter(|week| is(week)).count();
        let missed = count(|week| week.missed);
        let told = count(|week| week.told.is_some());
        let width = |week: &Week| {
            week.last
                .map_or(0.0, |last| (last.high / last.low).ln() / 2.0)
        };
        let width = weeks.iter().map(width).sum::<f64>() / WEEKS as f64;
        println!(
            "{:+10.0} %  {missed:7} of {WEEKS}  {:8} of {WEEKS}  {told:3}  {:.1} %",
            change * 100.0,
            count(|week| week.missed_at_end),
            width.exp_m1() * 100.0
        );
        // One in twenty is what 95 % allow, and the task allows one in ten where there is an effect.
        assert!(missed <= WEEKS as usize / 20, "{change}: {missed} missed");
        if change == 0.0 {
            assert!(told <= WEEKS as usize / 20, "{told} false alarms");
        }
    }
}
