//! A server and a client in namespaces of their own, joined by the links `plain` and `steered`; and
//! at the server `tunnel`, which leads through SRv6 to nowhere.
#![allow(
    unsafe_code,
    reason = "namespaces of threads, and an interface's offloads"
)]

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::{Duration, Instant};

use hikyaku_quic::Socket as _;
use hikyaku_quic::udp::{EcnCodepoint, RecvMeta, Transmit, UdpSocketState};
use rustix::thread::{CapabilitySet, LinkNameSpaceType, UnshareFlags};
use socket2::{Domain, Socket, Type};

use super::super::{MarkedSocket, Marks};
use hikyaku_testkit::{skip, skip_part, this_test};

/// Marks of the rules at the server: one that no rule knows, the link `steered`, a blackhole, and the
/// interface `tunnel`.
pub(super) const PLAIN: u32 = 0x99;
pub(super) const STEERED: u32 = 0x10_0064;
pub(super) const REFUSED: u32 = 0x10_0065;
pub(super) const UNSEGMENTED: u32 = 0x10_0066;

/// Addresses that the server's socket is bound to, the client is sent to at, and the server sends
/// from.
pub(super) const FAMILIES: [(&str, &str, &str); 3] = [
    ("[::]:0", "fd00:c::1", "fd00:5::5"),
    ("[::]:0", "::ffff:10.99.0.1", "::ffff:10.99.5.5"),
    ("0.0.0.0:0", "10.99.0.1", "10.99.5.5"),
];

const SERVER: &str = "
    ip link set lo up
    ip addr add fd00:5::5/128 dev lo
    ip addr add 10.99.5.5/32 dev lo
    ip addr add fd00:1::2/64 dev plain nodad
    ip addr add fd00:2::2/64 dev steered nodad
    ip addr add 10.99.1.2/24 dev plain
    ip addr add 10.99.2.2/24 dev steered
    ip link set plain up
    ip link set steered up
    ip route add fd00:c::/64 via fd00:1::1
    ip route add 10.99.0.0/24 via 10.99.1.1
    ip route add fd00:c::/64 via fd00:2::1 table 100
    ip route add 10.99.0.0/24 via 10.99.2.1 table 100
    ip -6 route add blackhole default table 101
    ip -6 rule add fwmark 0x100064 lookup 100
    ip -4 rule add fwmark 0x100064 lookup 100
    ip -6 rule add fwmark 0x100065 lookup 101
";
const CLIENT: &str = "
    ip link set lo up
    ip addr add fd00:c::1/128 dev lo
    ip addr add 10.99.0.1/32 dev lo
    ip addr add fd00:1::1/64 dev plain nodad
    ip addr add fd00:2::1/64 dev steered nodad
    ip addr add 10.99.1.1/24 dev plain
    ip addr add 10.99.2.1/24 dev steered
    ip link set plain up
    ip link set steered up
";
const TUNNEL: &str = "
    ip link add tunnel type veth peer name nowhere
    ip addr add fd00:3::2/64 dev tunnel nodad
    ip link set tunnel up
    ip link set nowhere up
    ip neigh add fd00:3::1 lladdr 02:00:00:00:00:01 dev tunnel
    ip route add fd00:f::/64 via fd00:3::1
    ip sr tunsrc set fd00:5::5
    ip route add fd00:c::/64 encap seg6 mode encap segs fd00:f::1 dev tunnel table 102
    ip -6 rule add fwmark 0x100066 lookup 102
";

/// A transmit of a test; `ecn` is ECT(0) unless said otherwise.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sending {
    pub(super) length: usize,
    pub(super) segment_size: Option<usize>,
    pub(super) from: Option<IpAddr>,
    pub(super) ecn: Option<EcnCodepoint>,
}

impl Sending {
    /// One datagram.
    pub(super) const ONE: Self = Self {
        length: 1200,
        segment_size: None,
        from: None,
        ecn: Some(EcnCodepoint::Ect0),
    };

    pub(super) fn from(self, address: IpAddr) -> Self {
        Self {
            from: Some(address),
            ..self
        }
    }
}

/// A datagram as the client sees it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Arrived {
    /// The link that it came by.
    pub(super) interface: String,
    pub(super) from: IpAddr,
    pub(super) ecn: Option<EcnCodepoint>,
    pub(super) size: usize,
}

pub(super) struct Ground {
    pub(super) marks: Arc<Marks>,
    /// The kernel has SRv6 and `ip` knows of it.
    pub(super) encapsulates: bool,
    runtime: tokio::runtime::Runtime,
    server: Netns,
    client: Netns,
}

impl Ground {
    /// `None` without privileges.
    pub(super) fn new() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            skip(&this_test(), "namespaces need root");
            return None;
        }
        let [server, client] = [Netns::new(), Netns::new()];
        for link in ["plain", "steered"] {
            let thread = client.thread;
            let add = format!("ip link add {link} type veth peer name {link} netns {thread}");
            assert!(server.run(&add), "{add}");
        }
        assert!(server.run(SERVER) && client.run(CLIENT));
        let encapsulates = server.run(TUNNEL) && server.enter(no_checksums).is_ok();
        if !encapsulates {
            skip_part(&this_test(), "this kernel has no SRv6");
        }
        Some(Self {
            marks: Arc::default(),
            encapsulates,
            runtime: tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap(),
            server,
            client,
        })
    }

    /// A destination at the client.
    pub(super) fn client(&self, address: &str, port: u16) -> Receiver {
        let address = SocketAddr::new(address.parse().unwrap(), 4430 + port);
        let bound = SocketAddr::new(address.ip().to_canonical(), address.port());
        let sockets = ["plain", "steered"].map(|interface| {
            let socket = self.client.enter(|| {
                let socket = Socket::new(Domain::for_address(bound), Type::DGRAM, None)?;
                socket.bind_device(Some(interface.as_bytes()))?;
                socket.set_reuse_address(true)?;
                socket.bind(&bound.into())?;
                Ok::<_, io::Error>(UdpSocket::from(socket))
            });
            let socket = socket.unwrap();
            (
                interface,
                UdpSocketState::new((&socket).into()).unwrap(),
                socket,
            )
        });
        Receiver { address, sockets }
    }

    /// A socket of the server.
    pub(super) fn socket(&self, address: &str) -> Marked<'_> {
        let bind = || {
            let address: SocketAddr = address.parse().unwrap();
            let socket = Socket::new(Domain::for_address(address), Type::DGRAM, None)?;
            if address.is_ipv6() {
                socket.set_only_v6(false)?;
            }
            socket.bind(&address.into())?;
            Ok::<_, io::Error>(UdpSocket::from(socket))
        };
        let socket = self.server.enter(bind).unwrap();
        let _runtime = self.runtime.enter();
        let socket = MarkedSocket::new(socket, Arc::clone(&self.marks), Arc::default()).unwrap();
        Marked {
            socket: Arc::new(socket),
            runtime: &self.runtime,
        }
    }

    /// Packets that left the server by an interface, without the kernel's own for neighbours and
    /// groups (ICMPv6), which come at any time.
    pub(super) fn sent_by(&self, interface: &str) -> u64 {
        let counts = || {
            let table = |name: &str| {
                std::fs::read_to_string(format!("/proc/thread-self/net/{name}")).unwrap()
            };
            let number = |text: &str| text.trim().parse::<u64>().unwrap();
            let (icmp, devices) = (table(&format!("dev_snmp6/{interface}")), table("dev"));
            let own = icmp
                .lines()
                .find_map(|line| line.strip_prefix("Icmp6OutMsgs"));
            let all = devices
                .lines()
                .find_map(|line| line.trim().strip_prefix(interface)?.strip_prefix(':'))
                .and_then(|counts| counts.split_whitespace().nth(9));
            number(all.unwrap()) - number(own.unwrap())
        };
        // The kernel counts a packet of its own in one table after the other.
        self.server.enter(|| {
            loop {
                let first = counts();
                std::thread::sleep(Duration::from_millis(2));
                if counts() == first {
                    return first;
                }
            }
        })
    }
}

/// Where the client receives.
pub(super) struct Receiver {
    pub(super) address: SocketAddr,
    sockets: [(&'static str, UdpSocketState, UdpSocket); 2],
}

impl Receiver {
    /// The next `count` datagrams; there must be no more.
    pub(super) fn receive(&self, count: usize) -> Vec<Arrived> {
        let deadline = Instant::now() + Duration::from_secs(30);
        let mut arrived = Vec::new();
        while arrived.len() < count {
            assert!(Instant::now() < deadline, "only {arrived:?} came");
            self.receive_into(&mut arrived);
        }
        self.receive_into(&mut arrived);
        assert_eq!(arrived.len(), count, "{arrived:?}");
        arrived
    }

    fn receive_into(&self, arrived: &mut Vec<Arrived>) {
        for (interface, state, socket) in &self.sockets {
            let mut buffer = vec![0; 1 << 16];
            let mut meta = [RecvMeta::default()];
            let mut buffers = [IoSliceMut::new(&mut buffer)];
            let Ok(1) = state.recv(socket.into(), &mut buffers, &mut meta) else {
                continue;
            };
            let [meta] = meta;
            for begin in (0..meta.len).step_by(meta.stride) {
                arrived.push(Arrived {
                    interface: (*interface).to_owned(),
                    from: meta.addr.ip(),
                    ecn: meta.ecn,
                    size: meta.stride.min(meta.len - begin),
                });
            }
        }
        thread::yield_now();
    }
}

/// A socket under test.
pub(super) struct Marked<'a> {
    pub(super) socket: Arc<MarkedSocket>,
    runtime: &'a tokio::runtime::Runtime,
}

impl Marked<'_> {
    /// Sends as a driver does.
    pub(super) fn send(&self, to: &Receiver, sending: &Sending) {
        let contents = vec![7; sending.length];
        let transmit = Transmit {
            destination: to.address,
            ecn: sending.ecn,
            contents: &contents,
            segment_size: sending.segment_size,
            src_ip: sending.from,
        };
        self.runtime.block_on(async {
            let writable = std::future::poll_fn(|cx| self.socket.poll_writable(cx));
            writable.await.unwrap();
            self.socket.try_send(&transmit).unwrap();
        });
    }

    /// The same without the right to mark packets.
    pub(super) fn send_unprivileged(&self, to: &Receiver, sending: &Sending) {
        thread::scope(|scope| {
            scope.spawn(|| {
                // Of this thread alone.
                let mut sets = rustix::thread::capabilities(None).unwrap();
                sets.effective &= !(CapabilitySet::NET_ADMIN | CapabilitySet::NET_RAW);
                rustix::thread::set_capabilities(None, sets).unwrap();
                self.send(to, sending);
            });
        });
    }
}

/// A network namespace that lives as long as a thread in it.
struct Netns {
    thread: i32,
    namespace: File,
    _alive: Sender<()>,
}

impl Netns {
    fn new() -> Self {
        let (sender, receiver) = mpsc::channel();
        let (alive, dropped) = mpsc::channel();
        thread::spawn(move || {
            // SAFETY: the namespace of the network has nothing to do with memory or descriptors.
            unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }.unwrap();
            let namespace = File::open("/proc/thread-self/ns/net").unwrap();
            sender.send((rustix::thread::gettid(), namespace)).unwrap();
            // Ends with the namespace's owner.
            let _: Result<(), _> = dropped.recv();
        });
        let (thread, namespace) = receiver.recv().unwrap();
        Self {
            thread: thread.as_raw_nonzero().get(),
            namespace,
            _alive: alive,
        }
    }

    /// Does something inside.
    fn enter<T: Send>(&self, inside: impl FnOnce() -> T + Send) -> T {
        let entered = || {
            let network = Some(LinkNameSpaceType::Network);
            rustix::thread::move_into_link_name_space(self.namespace.as_fd(), network).unwrap();
            inside()
        };
        thread::scope(|scope| scope.spawn(entered).join().unwrap())
    }

    /// Runs commands inside until one fails.
    fn run(&self, commands: &str) -> bool {
        let mut lines = commands
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty());
        self.enter(move || {
            lines.all(|line| {
                let mut words = line.split_whitespace();
                let mut command = Command::new(words.next().unwrap());
                command.args(words).status().unwrap().success()
            })
        })
    }
}

/// Takes the checksum offload off `tunnel`, as ethtool(8) would.
fn no_checksums() -> io::Result<()> {
    #[repr(C)]
    struct Value {
        command: u32,
        data: u32,
    }
    const SIOCETHTOOL: libc::Ioctl = 0x8946;
    const ETHTOOL_STXCSUM: u32 = 0x17;
    let socket = UdpSocket::bind((Ipv6Addr::LOCALHOST, 0))?;
    let mut value = Value {
        command: ETHTOOL_STXCSUM,
        data: 0,
    };
    // SAFETY: zeros are a valid `ifreq`: a name without characters, and a null pointer.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"tunnel") {
        *to = libc::c_char::from_ne_bytes([*from]);
    }
    request.ifr_ifru.ifru_data = (&raw mut value).cast();
    // SAFETY: the kernel reads a name and the command, which live for the call.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &raw mut request) };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
