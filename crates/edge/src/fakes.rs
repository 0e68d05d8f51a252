//! The rest of the server for unit tests: all of it but sockets, under a clock that they stop.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hikyaku_core::client::sample::{Observation, TransportSample};
use hikyaku_core::model::Model;
use hikyaku_core::policy::PolicyConfig;
use hikyaku_units::arm::{ByTransport, Congestion, CongestionSet, Version};
use hikyaku_units::{Rate, Timestamp};
use http::{Request, Response};
use serde_json::Value;
use tokio::sync::broadcast;

use crate::access_log::AccessLog;
use crate::beacon::Beacons;
use crate::behind::{BehindConfig, Through};
use crate::clients::{self, Clients};
use crate::clock::Clock;
use crate::conn::{Conn, Opening};
use crate::egress::Egress;
use crate::events::Event;
use crate::gain::{Countries, Gain, GainConfig, GainTerms};
use crate::ledger::Ticket;
use crate::mptcp::Mptcp;
use crate::part::{Part, Whole};
use crate::policies::Policies;
use crate::secrets::{Secrets, Tickets};
use crate::sections::{AccessTarget, Limits, Timeouts};
use crate::serve::cleartext::Cleartext;
use crate::serve::{Service, Site};
use crate::shared::{Shared, Terms};
use crate::tcp_cc::Controls;
use crate::tls::{self, Certificate, Resumption, Source};
use crate::transport::Snapshot;
use hikyaku_content::{Files, FilesConfig, Peer, SERVER, Scheme, TlsVersion};

/// Its client.
pub(crate) const CLIENT: &str = "192.0.2.7:50000";
/// Its own address.
pub(crate) const LOCAL: &str = "198.51.100.1:443";

/// Congestion controls that all transports have here.
pub(crate) const AVAILABLE: ByTransport<CongestionSet> = ByTransport {
    tcp: CongestionSet::ALL,
    quic: CongestionSet::ALL,
};

/// The built-in model.
pub(crate) fn model() -> Model {
    Model::from_json(include_str!("../../../models/default.json")).unwrap()
}

/// A clock that starts at the same time in each test.
fn clock() -> Clock {
    Clock::starting_at(Timestamp::from_secs(1_800_000_000))
}

/// Clients as a server keeps them, of which it knows nobody.
pub(crate) fn clients(policy: &PolicyConfig, journal: bool) -> Clients {
    clients_by(&in_force(rules(policy)), journal)
}

/// The same by rules that can be replaced.
pub(crate) fn clients_by(rules: &InForce<clients::Rules>, journal: bool) -> Clients {
    Clients::new(part(rules), 100_000, journal, clock())
}

/// Rules of this policy.
pub(crate) fn rules(policy: &PolicyConfig) -> clients::Rules {
    clients::Rules::new(
        Policies::of_server(policy.clone()),
        model(),
        AVAILABLE,
        false,
    )
}

/// A value in force, which can be replaced.
pub(crate) type InForce<T> = Whole<Arc<T>>;

/// Puts a value into force.
pub(crate) fn in_force<T: Send + Sync + 'static>(value: T) -> InForce<T> {
    Whole::new(Arc::new(value))
}

/// A view of the value in force.
pub(crate) fn part<T: Send + Sync + 'static>(in_force: &InForce<T>) -> Part<T> {
    in_force.part(|value| value)
}

/// Puts another value into force.
pub(crate) fn replace<T: Send + Sync + 'static>(in_force: &InForce<T>, value: T) {
    in_force.replace(Arc::new(value));
}

/// TLS of TCP and of QUIC with a certificate of their own, and the secrets that both use.
pub(crate) fn tls() -> (rustls::ServerConfig, rustls::ServerConfig, Secrets) {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let names = vec!["a.example".to_owned()];
    let certificate = Certificate::load(Source::SelfSigned { names }, &provider).unwrap();
    let certificate = Arc::new(certificate);
    let secrets = Secrets::load(None, None).unwrap();
    let settings = tls::Settings {
        resumption: Resumption::new(Arc::clone(&secrets.tickets)),
        http2: true,
        only_tls13: false,
        early_data: false,
        tls_alpn_01: false,
    };
    let tcp = tls::tcp_config(
        Arc::<Certificate>::clone(&certificate),
        &provider,
        &settings,
    )
    .unwrap();
    let quic = tls::quic_config(certificate, &provider, &settings).unwrap();
    (tcp, quic, secrets)
}

/// A server without sockets that serves an empty directory.
pub(crate) struct Server {
    pub(crate) shared: Arc<Shared>,
    pub(crate) site: Arc<Site>,
    rules: InForce<clients::Rules>,
    service: InForce<Service>,
    root: tempfile::TempDir,
}

impl Server {
    /// With the policy and limits that are usual, but for the hold-back group and experiments.
    pub(crate) fn start() -> Self {
        Self::with(&policy(), Limits::default(), Timeouts::default())
    }

    pub(crate) fn with(policy: &PolicyConfig, limits: Limits, timeouts: Timeouts) -> Self {
        Self::with_egress(policy, limits, timeouts, None)
    }

    /// With egress routes, where there are some.
    pub(crate) fn with_egress(
        policy: &PolicyConfig,
        limits: Limits,
        timeouts: Timeouts,
        egress: Option<Arc<Egress>>,
    ) -> Self {
        Self::of(policy, (limits, timeouts), egress, BehindConfig::default())
    }

    /// With balancers and proxies in front of it.
    pub(crate) fn behind(behind: BehindConfig) -> Self {
        let usual = (Limits::default(), Timeouts::default());
        Self::of(&policy(), usual, None, behind)
    }

    fn of(
        policy: &PolicyConfig,
        (limits, timeouts): (Limits, Timeouts),
        egress: Option<Arc<Egress>>,
        behind: BehindConfig,
    ) -> Self {
        let root = tempfile::tempdir().unwrap();
        let log = AccessLog::open(&AccessTarget::Off, None, &Arc::default()).unwrap();
        let balancers = behind.hides_clients();
        let rules = clients::Rules::new(
            Policies::of_server(policy.clone()),
            model(),
            AVAILABLE,
            balancers,
        );
        let rules = in_force(rules);
        let clients = clients_by(&rules, true);
        let terms = Terms::new(policy, &limits, None, Arc::new(log), behind, true);
        let terms = in_force(terms);
        let gain = in_force(GainTerms {
            config: GainConfig::default(),
            countries: Countries::default(),
            holdback: policy.holdback,
            sites: Vec::new(),
        });
        let gain = Gain::new(part(&gain), clock());
        let shared = Shared::new(clock(), clients, egress, gain, part(&terms));
        let shared = Arc::new(shared);
        let service = in_force(service(&root, limits, timeouts));
        let controls = Arc::new(Controls::plain());
        let site = Site::new(Arc::clone(&shared), controls, part(&service), 443);
        Self {
            shared,
            site: Arc::new(site),
            rules,
            service,
            root,
        }
    }

    /// Puts other limits into force.
    pub(crate) fn set_limits(&self, limits: Limits, timeouts: Timeouts) {
        replace(&self.service, service(&self.root, limits, timeouts));
        self.site.reloaded();
    }

    /// Has its clients carry summaries, in tickets by these keys.
    pub(crate) fn carry_in(&self, tickets: &Arc<Tickets>) {
        let carrying = Service {
            carried_in: Some(Arc::clone(tickets)),
            ..service(&self.root, Limits::default(), Timeouts::default())
        };
        replace(&self.service, carrying);
    }

    /// Teaches it of a client by as many samples.
    pub(crate) fn teach(&self, client: IpAddr, samples: usize) {
        for _ in 0..samples {
            self.shared.clients.observe(client, &sample());
        }
    }

    /// Puts the policies of a configuration into force.
    pub(crate) fn set_policies(&self, policies: Policies) {
        let rules = clients::Rules::new(policies, model(), AVAILABLE, false);
        replace(&self.rules, rules);
        self.shared.clients.reloaded();
    }

    /// Puts another policy into force.
    pub(crate) fn set_policy(&self, policy: &PolicyConfig) {
        self.set_policies(Policies::of_server(policy.clone()));
    }

    /// A connection whose client's address is validated.
    pub(crate) fn connection(&self, version: Version) -> Arc<Conn> {
        self.open(version, true)
    }

    pub(crate) fn open(&self, version: Version, validated: bool) -> Arc<Conn> {
        let opening = self.opening(version, validated);
        Conn::open(Arc::clone(&self.shared), opening)
    }

    /// The parts that a connection is opened with.
    pub(crate) fn opening(&self, version: Version, validated: bool) -> Opening {
        let remote: SocketAddr = CLIENT.parse().unwrap();
        let admission = self.site.admit(remote.ip()).unwrap();
        let peer = Peer {
            remote,
            local: LOCAL.parse().unwrap(),
            version,
            tls: Some(TlsVersion::Tls13),
            server_name: None,
            scheme: Scheme::Https,
            via: None,
        };
        let memory = admission.memory(1 << 20, &self.site.service().limits);
        Opening {
            peer,
            through: Through::Nothing,
            congestion: Congestion::Cubic,
            pacer: None,
            mptcp: Mptcp::None,
            memory,
            validated,
            handshake: Duration::ZERO,
        }
    }

    /// The value of a metric with these labels.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let gauges = crate::metrics::Gauges {
            clients: self.shared.clients.len(),
            response_memory: 0,
            unstored: self.shared.unstored(),
            tasks: 0,
        };
        let mut registry = crate::metrics::registry();
        self.shared.metrics.register(&mut registry, gauges);
        let text = crate::metrics::encode(&registry, &crate::metrics::Process::default()).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let value = line.unwrap_or_else(|| panic!("no metric {name}"));
        value.trim_start_matches("{}").trim().parse().unwrap()
    }

    /// Watches the events from now on.
    pub(crate) fn watch(&self) -> Watch {
        Watch(self.shared.events.watch())
    }
}

/// Files of a directory, within these limits.
fn service(root: &tempfile::TempDir, limits: Limits, timeouts: Timeouts) -> Service {
    let files = Files::open(root.path(), &FilesConfig::default()).unwrap();
    Service {
        content: files.into(),
        cleartext: Cleartext::default(),
        shards: None,
        beacons: Beacons::default(),
        limits,
        timeouts,
        server: Some(SERVER),
        early_data: false,
        carried_in: None,
    }
}

/// Events since the last look.
pub(crate) struct Watch(broadcast::Receiver<Event>);

impl Watch {
    /// The contents of those with a name.
    pub(crate) fn take(&mut self, name: &str) -> Vec<Value> {
        let events = std::iter::from_fn(|| self.0.try_recv().ok());
        let named = events.filter(|event| event.name == name);
        named
            .map(|event| serde_json::from_str(&event.data).unwrap())
            .collect()
    }

    /// Whether the responses so far were complete, and their times in ms.
    pub(crate) fn responses(&mut self) -> Vec<(bool, u64)> {
        let responses = self.take("response");
        let ended = responses.iter().map(|event| {
            let complete = event["complete"].as_bool().unwrap();
            (complete, event["duration_us"].as_u64().unwrap() / 1000)
        });
        ended.collect()
    }

    /// UDP events so far.
    pub(crate) fn udp(&mut self) -> Vec<String> {
        let events = self.take("udp");
        let name = |event: &Value| event["event"].as_str().unwrap().to_owned();
        events.iter().map(name).collect()
    }
}

/// The usual policy, by which each client gets what it would get without experiments.
pub(crate) fn policy() -> PolicyConfig {
    PolicyConfig {
        holdback: 0.0,
        exploration: 0.0,
        trials: 0,
        ..PolicyConfig::default()
    }
}

/// A sample of a fast path without losses.
pub(crate) fn sample() -> Observation {
    Observation::Path(TransportSample {
        version: Version::H2,
        congestion: Congestion::Cubic,
        packets_sent: 100,
        packets_lost: 0,
        min_rtt: std::time::Duration::from_millis(20),
        srtt: std::time::Duration::from_millis(22),
        delivery_rate: Some(Rate::from_mbps(50)),
        app_limited: false,
    })
}

/// Counters of a connection whose handshake is complete, over a path of 20 ms.
pub(crate) fn first_snapshot() -> Snapshot {
    Snapshot {
        packets_sent: 5,
        min_rtt: Duration::from_millis(20),
        srtt: Duration::from_millis(20),
        ..Snapshot::default()
    }
}

/// Begins a response.
pub(crate) fn request(conn: &Conn) -> Ticket {
    let mut ticket = conn.ledger.open(&Request::get("/").body(()).unwrap());
    ticket.answered(&Response::new(()));
    ticket
}

/// Lets a connection's task run for a time, which polls its meter.
pub(crate) async fn run(ms: u64, mut poll: impl FnMut(&mut Context<'_>)) {
    let driving = std::future::poll_fn(|cx| {
        poll(cx);
        Poll::<()>::Pending
    });
    let _ = tokio::time::timeout(Duration::from_millis(ms), driving).await;
}
