//! CPU times of programs, used and waited for.

use std::fs;
use std::time::Duration;

/// Time for which the threads of a process were runnable but had no CPU, since their begin. Ended
/// threads and other processes of the program do not count. Zero if the process is gone or the
/// kernel does not count.
pub(super) fn waited(pid: u32) -> Duration {
    sum(pid, WAITED)
}

/// Time for which the threads of a process had a CPU, with the limits of [`waited`].
pub(super) fn used(pid: u32) -> Duration {
    sum(pid, USED)
}

fn sum(pid: u32, number: usize) -> Duration {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Duration::ZERO;
    };
    let waits = threads.flatten().map(|thread| {
        let text = fs::read_to_string(thread.path().join("schedstat"));
        let time = text.ok().and_then(|text| parse(&text, number));
        time.unwrap_or_default()
    });
    waits.sum()
}

/// Parses time on the CPU, time on the run queue, and times run, in ns (Linux,
/// Documentation/scheduler/sched-stats.rst).
fn parse(schedstat: &str, number: usize) -> Option<Duration> {
    let time = schedstat.split_whitespace().nth(number)?;
    time.parse().ok().map(Duration::from_nanos)
}

/// Indices of the times.
const USED: usize = 0;
const WAITED: usize = 1;

/// Share of a time; 0 if the time is zero.
pub(super) fn share(wait: Duration, of: Duration) -> f64 {
    if of.is_zero() {
        return 0.0;
    }
    // To a millionth, as everything in a record.
    (wait.div_duration_f64(of) * 1e6).round() / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_is_the_second_number() {
        for (number, nanos) in [(USED, 168_585_778), (WAITED, 331_865_053)] {
            let time = parse("168585778 331865053 44\n", number);
            assert_eq!(time, Some(Duration::from_nanos(nanos)));
        }
        assert_eq!(parse("", WAITED), None);
    }

    #[test]
    fn nobody_waits_in_a_process_that_is_gone() {
        assert_eq!(waited(u32::MAX), Duration::ZERO);
        assert!(used(std::process::id()) > Duration::ZERO);
    }

    #[test]
    fn a_share_is_of_the_session() {
        let ms = Duration::from_millis;
        assert!((share(ms(25), ms(1_000)) - 0.025).abs() < 1e-9);
        assert!(share(ms(1), ms(0)).abs() < 1e-9);
    }
}
