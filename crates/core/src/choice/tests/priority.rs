//! A fifth domain in one file: the urgency of a client's images (RFC 9218 §4.1). It shows the effort
//! of another choice. Outside, it takes a name in `Explorer`, for sessions of its own to explore in.

use std::convert::Infallible;

use crate::choice::{
    Change, Domain, Draw, Evidence, Explorer, Gain, Group, Pick, Reason, Rival, Session, choose,
};
use crate::policy::PolicyConfig;
use crate::stat::Stat;

/// `u=3` is every response's, `u=1` sends images ahead of scripts.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Urgency {
    Usual,
    Ahead,
}

/// The knowledge of a client: logarithms of the times until its pages are painted.
struct Images<'a> {
    usual: Stat,
    ahead: Stat,
    pinned: Option<Urgency>,
    policy: &'a PolicyConfig,
    draw: Draw,
}

impl Domain for Images<'_> {
    type Arm = Urgency;
    type Bar = Infallible;
    type Gain = Gain;

    fn pinned(&self) -> Option<Pick<Self>> {
        let urgency = self.pinned?;
        Some((urgency, Reason::Pinned(urgency)))
    }

    fn usual(&self) -> Urgency {
        Urgency::Usual
    }

    fn evidence(&self) -> Option<Evidence> {
        Some(Evidence {
            samples: self.usual.weight,
            needed: self.policy.min_samples,
        })
    }

    fn steady(&self) -> Pick<Self> {
        let error = [self.usual, self.ahead].map(|stat| stat.standard_error_sq(SPREAD));
        let error = (error[0] + error[1]).sqrt();
        let gain = Gain::normal(self.usual.mean - self.ahead.mean, error);
        match self.policy.needed(Change::Route).is_met(gain, 1.0) {
            true => (
                Urgency::Ahead,
                Reason::Better(Rival::by(Urgency::Usual, gain)),
            ),
            false => (
                Urgency::Usual,
                Reason::NoGain(Some(Rival::by(Urgency::Ahead, gain))),
            ),
        }
    }

    fn experiment(&self, steady: &Pick<Self>) -> Option<Pick<Self>> {
        self.draw.explores(Explorer::Images, self.policy)?;
        let other = match steady.0 {
            Urgency::Usual => Urgency::Ahead,
            Urgency::Ahead => Urgency::Usual,
        };
        Some((other, Reason::Explore(Rival::of(steady.0))))
    }
}

const SPREAD: f32 = 0.3;

#[test]
fn a_fifth_domain_needs_one_file() {
    let known = |mean: f32, weight: f32| Stat {
        mean,
        var: 0.01,
        weight,
    };
    let policy = PolicyConfig::default();
    let always = PolicyConfig {
        exploration: 1.0,
        ..policy.clone()
    };
    let images = |usual, ahead, policy| Images {
        usual,
        ahead,
        pinned: None,
        policy,
        draw: Draw {
            seed: 1,
            client: 7,
            session: Session(1),
        },
    };
    let better = || images(known(0.0, 40.0), known(-0.5, 40.0), &policy);
    let is = |images: &Images<'_>, is_held_back| choose(images, is_held_back).0;
    assert_eq!(is(&better(), false), Urgency::Ahead);
    assert_eq!(is(&better(), true), Urgency::Usual, "held back");
    let few = images(known(0.0, 2.0), known(-0.5, 40.0), &policy);
    assert!(matches!(choose(&few, false).1, Reason::TooFewSamples(_)));
    let same = images(known(0.0, 40.0), known(0.0, 40.0), &policy);
    assert!(matches!(choose(&same, false).1, Reason::NoGain(Some(_))));
    let explores = images(known(0.0, 40.0), known(0.0, 40.0), &always);
    assert_eq!(choose(&explores, false).1.group(), Group::Explore);
    let pinned = Images {
        pinned: Some(Urgency::Usual),
        ..better()
    };
    assert_eq!(choose(&pinned, false).1, Reason::Pinned(Urgency::Usual));
}
