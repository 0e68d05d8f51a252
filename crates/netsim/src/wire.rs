//! The wire behind the transmitter: loss, delay, jitter and reordering.

use std::collections::{BTreeMap, VecDeque};

use rand_chacha::ChaCha8Rng;

use crate::config::{LinkConfig, Reorder};
use crate::loss::LossProcess;
use crate::nanos;
use crate::packet::Packet;
use crate::rng::{Purpose, below, hit, stream};

/// Packets on their way. Each packet draws from every stream in use, whether or
/// not another draw matters to it. So the result of one draw never depends on
/// another.
#[derive(Debug)]
pub(crate) struct Wire<P> {
    one_way_delay_ns: u64,
    jitter_ns: u64,
    reorder: Reorder,
    loss: LossProcess,
    jitter_rng: ChaCha8Rng,
    reorder_rng: ChaCha8Rng,
    /// Packets by order of sending, which is also their order of arrival.
    in_order: VecDeque<(u64, Packet<P>)>,
    /// Packets held back, by arrival and order of sending.
    held_back: BTreeMap<(u64, u64), Packet<P>>,
    /// Packets held back so far.
    held_back_count: u64,
    last_due_ns: u64,
}

impl<P> Wire<P> {
    pub(crate) fn new(config: &LinkConfig, seed: u64) -> Self {
        Self {
            one_way_delay_ns: nanos(config.one_way_delay),
            jitter_ns: nanos(config.jitter),
            reorder: config.reorder,
            loss: LossProcess::new(config.loss, seed),
            jitter_rng: stream(seed, Purpose::Jitter),
            reorder_rng: stream(seed, Purpose::Reorder),
            in_order: VecDeque::new(),
            held_back: BTreeMap::new(),
            held_back_count: 0,
            last_due_ns: 0,
        }
    }

    /// Applies the properties of `config` from the next packet on.
    pub(crate) fn set(&mut self, config: &LinkConfig) {
        self.one_way_delay_ns = nanos(config.one_way_delay);
        self.jitter_ns = nanos(config.jitter);
        self.reorder = config.reorder;
        self.loss.set(config.loss);
    }

    /// Sends a packet whose last bit leaves at `sent_ns`, or returns it if it is
    /// lost.
    pub(crate) fn send(&mut self, sent_ns: u64, packet: Packet<P>) -> Result<(), Packet<P>> {
        let jitter_ns = match self.jitter_ns {
            0 => 0,
            jitter_ns => below(&mut self.jitter_rng, jitter_ns.saturating_add(1)),
        };
        let extra_ns = self.draw_extra();
        if self.loss.loses_next() {
            return Err(packet);
        }
        let due_ns = self.earliest(sent_ns).max(
            sent_ns
                .saturating_add(self.one_way_delay_ns)
                .saturating_add(jitter_ns),
        );
        if let Some(extra_ns) = extra_ns {
            let key = (due_ns.saturating_add(extra_ns), self.held_back_count);
            self.held_back_count += 1;
            self.held_back.insert(key, packet);
        } else {
            self.last_due_ns = due_ns;
            self.in_order.push_back((due_ns, packet));
        }
        Ok(())
    }

    /// The earliest arrival of a packet that leaves the transmitter at `sent_ns`.
    pub(crate) fn earliest(&self, sent_ns: u64) -> u64 {
        let undisturbed = sent_ns.saturating_add(self.one_way_delay_ns);
        undisturbed.max(self.last_due_ns)
    }

    /// The time at which the first packet on the wire is due.
    pub(crate) fn next_due(&self) -> Option<u64> {
        let in_order = self.in_order.front().map(|(due_ns, _)| *due_ns);
        let held_back = self
            .held_back
            .first_key_value()
            .map(|((due_ns, _), _)| *due_ns);
        in_order.into_iter().chain(held_back).min()
    }

    /// Takes out the first packet due by `now_ns`, with its time.
    pub(crate) fn take_due(&mut self, now_ns: u64) -> Option<(u64, Packet<P>)> {
        let due_ns = self.next_due().filter(|&due_ns| due_ns <= now_ns)?;
        self.in_order
            .pop_front_if(|(in_order_ns, _)| *in_order_ns == due_ns)
            .or_else(|| {
                let ((due_ns, _), packet) = self.held_back.pop_first()?;
                Some((due_ns, packet))
            })
    }

    /// Packets on the wire.
    pub(crate) fn len(&self) -> usize {
        self.in_order.len() + self.held_back.len()
    }

    fn draw_extra(&mut self) -> Option<u64> {
        let Reorder::HoldBack {
            share_ppm,
            extra_delay,
        } = self.reorder
        else {
            return None;
        };
        hit(&mut self.reorder_rng, share_ppm).then(|| nanos(extra_delay))
    }
}
