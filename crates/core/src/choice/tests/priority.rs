//! A fifth domain in one file: the urgency of a client's images (RFC 9218 §4.1). It shows the effort
//! of another choice. Outside, it takes a name in `Explorer`, for sessions of its own to explore in.

use crate::choice::{Change, Domain, Draw, Evidence, Explorer, Gain, Group, Pick, Session, choose};
use crate::policy::PolicyConfig;
use crate::stat::Stat;

/// `u=3` is every response's, `u=1` sends images ahead of scripts.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Urgency {
    Usual,
    Ahead,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Why {
    Pinned,
    HoldBack,
    TooFewSamples,
    NoGain,
    Better(Gain),
    Explore,
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
    type Reason = Why;

    fn pinned(&self) -> Option<(Urgency, Why)> {
        self.pinned.map(|urgency| (urgency, Why::Pinned))
    }

    fn held_back(&self) -> Option<(Urgency, Why)> {
        Some((Urgency::Usual, Why::HoldBack))
    }

    fn little_known(&self) -> Option<(Urgency, Why)> {
        let evidence = Evidence {
            samples: self.usual.weight,
            needed: self.policy.min_samples,
        };
        (!evidence.is_enough()).then_some((Urgency::Usual, Why::TooFewSamples))
    }

    fn steady(&self) -> Pick<Urgency, Why> {
        let error = [self.usual, self.ahead].map(|stat| stat.standard_error_sq(SPREAD));
        let error = (error[0] + error[1]).sqrt();
        let gain = Gain::normal(self.usual.mean - self.ahead.mean, error);
        match self.policy.needed(Change::Route).is_met(gain, 1.0) {
            true => Pick::new(Urgency::Ahead, Why::Better(gain), Group::Normal),
            false => Pick::new(Urgency::Usual, Why::NoGain, Group::Normal),
        }
    }

    fn experiment(&self, steady: &Pick<Urgency, Why>) -> Option<(Urgency, Why)> {
        let is_drawn = self.draw.explores(Explorer::Images, self.policy).is_some();
        let other = match steady.arm {
            Urgency::Usual => Urgency::Ahead,
            Urgency::Ahead => Urgency::Usual,
        };
        is_drawn.then_some((other, Why::Explore))
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
    let is = |images: &Images<'_>, is_held_back| choose(images, is_held_back).arm;
    assert_eq!(is(&better(), false), Urgency::Ahead);
    assert_eq!(is(&better(), true), Urgency::Usual, "held back");
    let few = images(known(0.0, 2.0), known(-0.5, 40.0), &policy);
    assert_eq!(choose(&few, false).reason, Why::TooFewSamples);
    let same = images(known(0.0, 40.0), known(0.0, 40.0), &policy);
    assert_eq!(choose(&same, false).reason, Why::NoGain);
    let explores = images(known(0.0, 40.0), known(0.0, 40.0), &always);
    assert_eq!(choose(&explores, false).group, Group::Explore);
    let pinned = Images {
        pinned: Some(Urgency::Usual),
        ..better()
    };
    assert_eq!(choose(&pinned, false).reason, Why::Pinned);
}
