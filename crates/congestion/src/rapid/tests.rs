use super::*;

const MS: Duration = Duration::from_millis(1);

fn growth_after(rtts: &[Duration]) -> f64 {
    let mut rapid = Rapid::new(true);
    for rtt in rtts {
        rapid.on_rtt(*rtt);
    }
    rapid.growth()
}

#[test]
fn it_triples_while_the_path_is_empty() {
    let of = |first: u32, then: u32| {
        let mut rtts = vec![MS * first; 4];
        rtts.extend([MS * then; RECENT]);
        growth_after(&rtts)
    };
    for (case, growth, want) in [
        ("nothing measured", growth_after(&[]), 1.0),
        ("handshake alone", growth_after(&[MS * 40]), 2.0),
        ("no rise", of(20, 20), 2.0),
        ("a tenth", of(20, 22), 2.0),
        ("more than a tenth", of(20, 23), 1.0),
        ("4 ms on a long path", of(200, 204), 2.0),
        ("more than 4 ms", of(200, 205), 1.0),
        ("a shorter RTT", of(40, 20), 2.0),
    ] {
        assert!((growth - want).abs() < 1e-9, "{case}: {growth}");
    }
}

#[test]
fn jitter_of_single_packets_is_no_queue() {
    let mut rtts = vec![MS * 20];
    rtts.extend((0..RECENT as u32).map(|i| MS * (20 + 5 * u32::from(i % 2 == 0))));
    assert!((growth_after(&rtts) - 2.0).abs() < 1e-9);
}

#[test]
fn it_goes_on_when_the_queue_is_gone() {
    let mut rapid = Rapid::new(true);
    for rtt in [20, 30, 20] {
        (0..RECENT).for_each(|_| rapid.on_rtt(MS * rtt));
    }
    assert!((rapid.growth() - 2.0).abs() < 1e-9);
}

#[test]
fn it_doubles_for_good_after_its_end() {
    let mut rapid = Rapid::new(true);
    rapid.on_rtt(MS * 20);
    rapid.end();
    rapid.on_rtt(MS * 20);
    assert!((rapid.growth() - 1.0).abs() < 1e-9);
}
