//! Experiments with doubtful arms.

use super::{BAD, EVEN, GOOD, all, known, now, on, outcomes, over_cubic, policy};
use crate::choice::Group;
use crate::client::udp::Verdict;
use crate::client::view::ClientView;
use crate::model::tests::synthetic;
use crate::policy::PolicyConfig;
use crate::stat::Stat;
use crate::transport::decide;
use hikyaku_units::arm::Version;

#[test]
fn a_doubtful_arm_is_tried() {
    let policy = PolicyConfig {
        trials: 2,
        ..policy()
    };
    let none = Stat::default();
    let few = outcomes(0.0, 1.0);
    let enough = outcomes(0.0, 2.0);
    let even = |version, [h2, h3]: [Stat; 2]| ClientView {
        choice: on(version, 99_999),
        outcome: over_cubic(h2, h3),
        ..known(EVEN)
    };
    let sure = |loss, version| ClientView {
        choice: on(version, 99_999),
        ..known(loss)
    };
    let hidden = |version, outcomes| ClientView {
        tcp_is_hidden: true,
        ..even(version, outcomes)
    };
    let troubled = ClientView {
        udp: Verdict::Doubtful,
        ..even(Version::H2, [enough, none])
    };
    let disappointing = ClientView {
        own_outcome: over_cubic(none, outcomes(0.8, 3.0)),
        outcome: over_cubic(none, outcomes(0.8, 3.0)),
        ..sure(BAD, Version::H3)
    };
    let tried_in_vain = ClientView {
        own_outcome: over_cubic(outcomes(1.5, 1.0), outcomes(0.8, 3.0)),
        outcome: over_cubic(outcomes(1.5, 1.0), outcomes(0.8, 3.0)),
        ..disappointing
    };
    // name, view, version tried
    let cases: &[(&str, ClientView, Option<Version>)] = &[
        (
            "HTTP/2 never seen",
            even(Version::H3, [none, enough]),
            Some(Version::H2),
        ),
        (
            "HTTP/2 seen once",
            even(Version::H3, [few, enough]),
            Some(Version::H2),
        ),
        (
            "HTTP/2 seen twice",
            even(Version::H3, [enough, enough]),
            None,
        ),
        (
            "HTTP/3 never seen",
            even(Version::H2, [enough, none]),
            Some(Version::H3),
        ),
        (
            "the one in use never seen",
            even(Version::H2, [none, enough]),
            None,
        ),
        ("HTTP/3 never seen, UDP in trouble", troubled, None),
        (
            "HTTP/2 never seen, since TCP is not measured",
            hidden(Version::H3, [none, enough]),
            None,
        ),
        (
            "HTTP/3 never seen, while TCP is not measured",
            hidden(Version::H2, [none; 2]),
            Some(Version::H3),
        ),
        (
            "the one in use disappoints",
            disappointing,
            Some(Version::H2),
        ),
        ("the other disappointed more", tried_in_vain, None),
        ("HTTP/3 surely slower", sure(GOOD, Version::H2), None),
        ("HTTP/2 surely slower", sure(BAD, Version::H3), None),
    ];
    for (name, view, want) in cases {
        let decision = decide(view, &synthetic(), &policy, &all(), now(), 1);
        let tried = (decision.reason.code() == "trial").then_some(decision.version);
        assert_eq!(tried, *want, "{name}: {}", decision.reason);
        assert_eq!(decision.group == Group::Trial, want.is_some(), "{name}");
    }
    let never = PolicyConfig {
        trials: 0,
        ..policy
    };
    let decision = decide(
        &even(Version::H3, [none; 2]),
        &synthetic(),
        &never,
        &all(),
        now(),
        1,
    );
    assert!(!decision.group.is_experiment(), "{}", decision.reason);
}
