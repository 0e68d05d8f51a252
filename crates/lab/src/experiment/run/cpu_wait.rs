//! How long programs waited for a CPU.

use std::fs;
use std::time::Duration;

/// Time for which the threads of a process had something to do but no CPU, since they
/// began. Those that have ended and other processes of the program are not in it. Zero
/// where the process is gone or the kernel does not count.
pub(super) fn waited(pid: u32) -> Duration {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Duration::ZERO;
    };
    let waits = threads.flatten().map(|thread| {
        let text = fs::read_to_string(thread.path().join("schedstat"));
        text.ok().as_deref().and_then(parse).unwrap_or_default()
    });
    waits.sum()
}

/// Linux, Documentation/scheduler/sched-stats.rst: time on the CPU, time on the run
/// queue, and times run; in ns.
fn parse(schedstat: &str) -> Option<Duration> {
    let wait = schedstat.split_whitespace().nth(1)?;
    wait.parse().ok().map(Duration::from_nanos)
}

/// Share of a time; 0 of none.
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
        assert_eq!(
            parse("168585778 331865053 44\n"),
            Some(Duration::from_nanos(331_865_053))
        );
        assert_eq!(parse(""), None);
    }

    #[test]
    fn nobody_waits_in_a_process_that_is_gone() {
        assert_eq!(waited(u32::MAX), Duration::ZERO);
    }

    #[test]
    fn a_share_is_of_the_session() {
        let ms = Duration::from_millis;
        assert!((share(ms(25), ms(1_000)) - 0.025).abs() < 1e-9);
        assert!(share(ms(1), ms(0)).abs() < 1e-9);
    }
}
