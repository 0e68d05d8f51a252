//! Congestion control of TCP connections, and our own in the kernel (`bpf/`).
//!
//! The kernel's `cubic` and `bbr` are chosen by name. Where the kernel allows eBPF there are four more,
//! under names of this server alone. `hk_cubic` and `hk_bbr` hold a fixed floor under the window.
//! `hk_fair` holds one that the path has shown and that yields to queues. A connection has `hk_move` for
//! a moment only, when its path has become a black hole. All go with the process, however it ends;
//! connections that have them keep them.

mod load;
mod setting;

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicBool, Ordering};

use hikyaku_units::SavedPath;
use hikyaku_units::arm::Congestion;
use libbpf_rs::{MapCore, MapFlags};
use parking_lot::Mutex;
use rustix::net::sockopt;

use crate::sys;

pub use crate::bpf::{LoadError, Prefix};
pub use setting::Setting;

/// Congestion control that a TCP connection is to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// The kernel's own.
    Plain(Congestion),
    /// With a window of at least so many bytes, whatever is lost.
    Floor {
        /// The algorithm above the floor.
        over: Congestion,
        /// Bytes.
        bytes: u32,
    },
    /// CUBIC with a floor that the path has shown and that yields to queues.
    Fair {
        /// The former measurements of the client path, by which a connection begins.
        known: Option<SavedPath>,
    },
}

impl Control {
    /// The control in terms of a decision.
    #[must_use]
    pub fn congestion(self) -> Congestion {
        match self {
            Self::Plain(congestion)
            | Self::Floor {
                over: congestion, ..
            } => congestion,
            Self::Fair { .. } => Congestion::Floor,
        }
    }

    /// Whether it is the same but for the former measurements of the client path.
    #[must_use]
    pub fn is_like(self, other: Self) -> bool {
        let plain = |control| match control {
            Self::Fair { .. } => Self::Fair { known: None },
            control => control,
        };
        plain(self) == plain(other)
    }

    /// The kernel's own algorithm that comes nearest.
    pub fn plain(self) -> Congestion {
        match self {
            Self::Plain(congestion)
            | Self::Floor {
                over: congestion, ..
            } => congestion,
            Self::Fair { .. } => Congestion::Cubic,
        }
    }

    /// Setting that our control gets; `None` for the kernel's.
    fn setting(self) -> Option<Setting> {
        let setting = Setting::default();
        match self {
            Self::Plain(_) => None,
            Self::Floor { bytes, .. } => Some(Setting {
                floor: bytes,
                ..setting
            }),
            Self::Fair { known } => Some(Setting {
                init_window: known.map_or(0, |known| known.initial_window()),
                known,
                ..setting
            }),
        }
    }
}

/// Setter of the congestion control of sockets.
#[derive(Debug)]
pub struct Controls {
    loaded: Option<load::Loaded>,
    /// Held while a prefix has a setting for one connection alone.
    prefix: Mutex<()>,
    /// A warning that a control could not be set was logged.
    warned: AtomicBool,
}

impl Controls {
    /// Only the kernel's own.
    pub fn plain() -> Self {
        Self::of(None)
    }

    /// Loads ours. `bbr` says whether the kernel has it.
    ///
    /// # Errors
    /// When the kernel lacks BTF, refuses, or does not allow it.
    pub fn load(bbr: bool) -> Result<Self, LoadError> {
        load::load(bbr).map(|loaded| Self::of(Some(loaded)))
    }

    fn of(loaded: Option<load::Loaded>) -> Self {
        Self {
            loaded,
            prefix: Mutex::new(()),
            warned: AtomicBool::new(false),
        }
    }

    /// Whether floors can be held on TCP.
    pub fn has_floors(&self) -> bool {
        self.loaded.is_some()
    }

    /// The names of our controls, as the kernel and ss(8) have them.
    pub fn own_names(&self) -> Vec<String> {
        let floor = |over| Control::Floor { over, bytes: 0 };
        let ours = [
            floor(Congestion::Cubic),
            floor(Congestion::Bbr),
            Control::Fair { known: None },
        ];
        let mut names: Vec<String> = ours.map(|control| self.name(control)).into();
        names.retain(|name| name.starts_with("hk_"));
        names
    }

    /// The name under which the kernel has a control, or that of the plain one where ours is not
    /// there.
    pub fn name(&self, control: Control) -> String {
        let own = match control {
            Control::Plain(_) => None,
            Control::Floor {
                over: Congestion::Bbr,
                ..
            } => Some("hk_bbr"),
            Control::Floor { .. } => Some("hk_cubic"),
            Control::Fair { .. } => Some("hk_fair"),
        };
        match (&self.loaded, own) {
            (Some(loaded), Some(own)) if own != "hk_bbr" || loaded.bbr => {
                format!("{own}{}", loaded.suffix)
            }
            _ => control.plain().name().to_owned(),
        }
    }

    /// Sets a connection's congestion control, at any time.
    ///
    /// The subflows of MPTCP find their setting by the address of the peer, others by their
    /// socket.
    ///
    /// # Errors
    /// `EPERM` where `tcp_allowed_congestion_control` does not list it, `ENOENT` where the kernel
    /// does not have it, and what the maps answer.
    pub fn set_congestion(
        &self,
        socket: &impl AsFd,
        peer: IpAddr,
        mptcp: bool,
        control: Control,
    ) -> io::Result<()> {
        let name = self.name(control);
        let (Some(loaded), Some(setting)) = (&self.loaded, control.setting()) else {
            return choose(socket, &name);
        };
        if !mptcp {
            let key = socket.as_fd().as_raw_fd().to_ne_bytes();
            let value = setting.encode();
            let updated = loaded.settings.update(&key, &value, MapFlags::ANY);
            updated.map_err(io::Error::other)?;
            return choose(socket, &name);
        }
        let _alone = self.prefix.lock();
        let key = Prefix::of(peer).encode();
        let put = loaded
            .prefixes
            .update(&key, &setting.encode(), MapFlags::ANY);
        put.map_err(io::Error::other)?;
        // A control that the socket has already would not begin anew, and not look at it.
        let chosen = choose(socket, control.plain().name()).and_then(|()| choose(socket, &name));
        let _ = loaded.prefixes.delete(&key);
        chosen
    }

    /// Sets the congestion control of a connection that has sent its handshake at most. One that it has already
    /// begins anew, with other measurements of the client path.
    ///
    /// # Errors
    /// As [`Controls::set_congestion`].
    pub fn begin(
        &self,
        socket: &impl AsFd,
        peer: IpAddr,
        mptcp: bool,
        control: Control,
    ) -> io::Result<()> {
        if self.loaded.is_some() && matches!(control, Control::Fair { .. }) {
            choose(socket, control.plain().name())?;
        }
        self.set_congestion(socket, peer, mptcp, control)
    }

    /// Makes a TCP connection send new data at once though its window is full. It sends some packets, as
    /// many as an unknown path may be sent. To be called after its route has changed because the former
    /// one carries nothing. The receiver's answer then shows the kernel the losses a round trip later,
    /// instead of two and a retransmission timeout. `control` is the connection's control, which begins
    /// anew with the measurements of the new path; `None` for the kernel's choice.
    ///
    /// Of a sender that is slower than its window allows, lost packets may fill the send buffer, so it
    /// is given room for more. Without our own controls only as much is sent as the window has room for.
    /// A connection that has no more data than is in flight waits for the kernel's tail loss probe.
    ///
    /// # Errors
    /// As [`Controls::set_congestion`]; and those of setsockopt(2).
    pub fn failover(
        &self,
        socket: &impl AsFd,
        peer: IpAddr,
        control: Option<Control>,
    ) -> io::Result<()> {
        // Where that cannot be, the next data wait for an acknowledgement.
        let _ = sys::double_send_buffer(socket);
        let Some(loaded) = &self.loaded else {
            return push(socket);
        };
        let former = sockopt::tcp_congestion(socket)?;
        choose(socket, &format!("{FAILOVER}{}", loaded.suffix))?;
        let pushed = push(socket);
        let begun = match control {
            Some(control @ Control::Fair { .. }) => self.begin_anew(socket, peer, control),
            _ => choose(socket, &former),
        };
        // No socket keeps a control that is for a moment only.
        begun.or_else(|_| choose(socket, &former))?;
        pushed
    }

    /// Has the control of a TCP connection learn the path anew, after its route has changed. Round-trip
    /// times of a shorter path would make a longer one look queued. The window stays. A floor, and the
    /// kernel's own controls, keep nothing that has to go.
    ///
    /// # Errors
    /// As [`Controls::set_congestion`].
    pub fn begin_anew(&self, socket: &impl AsFd, peer: IpAddr, control: Control) -> io::Result<()> {
        let Control::Fair { .. } = control else {
            return Ok(());
        };
        if self.loaded.is_none() {
            return Ok(());
        }
        // A control that the socket has already would not begin anew.
        choose(socket, control.plain().name())?;
        // The former measurements were of the former path.
        self.set_congestion(socket, peer, false, Control::Fair { known: None })
    }

    /// Says why a control could not be set, the first time: every connection would.
    pub(crate) fn warn_once(&self, control: Control, error: &io::Error) {
        if !self.warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "setting congestion control {} on a TCP connection: {error}; such connections \
                 keep what they have (is it in net.ipv4.tcp_allowed_congestion_control?)",
                self.name(control)
            );
        }
    }

    /// Sets the first values for connections from a prefix that have no setting of their own; `None`
    /// removes it.
    ///
    /// # Errors
    /// When the map is full.
    pub fn set_prefix(&self, prefix: Prefix, setting: Option<Setting>) -> io::Result<()> {
        let Some(loaded) = &self.loaded else {
            return Ok(());
        };
        let key = prefix.encode();
        let result = match setting {
            Some(setting) => loaded
                .prefixes
                .update(&key, &setting.encode(), MapFlags::ANY),
            None => loaded
                .prefixes
                .delete(&key)
                .or_else(|error| match error.kind() {
                    libbpf_rs::ErrorKind::NotFound => Ok(()),
                    _ => Err(error),
                }),
        };
        result.map_err(io::Error::other)
    }
}

/// Sends as much as may be sent: the kernel looks when the option is set (tcp(7)), also where it is set.
fn push(socket: &impl AsFd) -> io::Result<()> {
    Ok(sockopt::set_tcp_nodelay(socket, true)?)
}

/// The control that makes room for some packets when a socket is given it.
const FAILOVER: &str = "hk_move";

fn choose(socket: &impl AsFd, name: &str) -> io::Result<()> {
    Ok(sockopt::set_tcp_congestion(socket, name)?)
}
