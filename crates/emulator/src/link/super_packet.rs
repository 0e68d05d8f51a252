//! Super-packets, split and joined without touching their payload.
//!
//! With segmentation offload the kernel delivers up to 64 KiB as one packet. A `struct
//! virtio_net_hdr` before it (`linux/virtio_net.h`; VIRTIO 1.2 §5.1.6) gives the lengths of its
//! segments. Splitting is logical. A [`SuperPacket`] returns the length of each segment, and the
//! headers for any run of neighbouring segments. Such a run may again be one super-packet.

#[cfg(test)]
mod tests;

use std::ops::Range;

use hikyaku_netsim::PacketInfo;

use super::ip;

/// A frame of a TUN interface with `IFF_VNET_HDR`: header and IP packet.
#[derive(Debug)]
pub(super) struct SuperPacket {
    frame: Box<[u8]>,
    split: Option<Split>,
}

/// The segments of a super-packet. Offsets count from the start of the IP packet.
#[derive(Clone, Copy, Debug)]
struct Split {
    transport: Transport,
    /// Offset of the TCP or UDP header.
    transport_start: usize,
    /// Offset of the payload.
    payload_start: usize,
    /// Payload bytes of each segment but the last.
    segment_payload: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transport {
    Tcp,
    Udp,
}

/// A frame that contradicts its header.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("reading a frame of {len} bytes: its headers are cut off or contradict each other")]
pub(super) struct MalformedFrame {
    len: usize,
}

/// Length of `struct virtio_net_hdr`.
const VNET_HEADER: usize = 10;

// Fields of `struct virtio_net_hdr`, in the machine's byte order.
const GSO_TYPE: usize = 1;
const HEADER_LEN: Range<usize> = 2..4;
const GSO_SIZE: Range<usize> = 4..6;
const CHECKSUM_START: Range<usize> = 6..8;
const CHECKSUM_OFFSET: Range<usize> = 8..10;

// Values of `gso_type`.
const GSO_NONE: u8 = 0;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_UDP_L4: u8 = 5;
/// Flag: the first segment carries CWR (RFC 3168 §6.1.2), the others must not.
const GSO_ECN: u8 = 0x80;

const TCP_FIN: u8 = 0x01;
const TCP_PSH: u8 = 0x08;
const TCP_CWR: u8 = 0x80;

impl SuperPacket {
    /// Parses a frame as read from the interface.
    ///
    /// # Errors
    /// If the frame is shorter than its headers say, or of a kind that this end did not offer to
    /// take.
    pub(super) fn parse(frame: &[u8]) -> Result<Self, MalformedFrame> {
        let malformed = MalformedFrame { len: frame.len() };
        let (header, packet) = frame.split_at_checked(VNET_HEADER).ok_or(malformed)?;
        let malformed = MalformedFrame { len: frame.len() };
        let split = match header[GSO_TYPE] & !GSO_ECN {
            GSO_NONE if packet.is_empty() => return Err(malformed),
            GSO_NONE => None,
            GSO_TCPV4 | GSO_TCPV6 => {
                Some(Split::new(Transport::Tcp, header, packet).ok_or(malformed)?)
            }
            GSO_UDP_L4 => Some(Split::new(Transport::Udp, header, packet).ok_or(malformed)?),
            _ => return Err(malformed),
        };
        Ok(Self {
            frame: frame.into(),
            split,
        })
    }

    /// Number of segments, at least 1.
    pub(super) fn segments(&self) -> usize {
        self.split.map_or(1, |split| {
            let payload = self.packet().len() - split.payload_start;
            payload.div_ceil(split.segment_payload).max(1)
        })
    }

    /// Length of the IP packet that carries segment `index`.
    pub(super) fn segment_len(&self, index: usize) -> usize {
        self.split.map_or(self.packet().len(), |split| {
            split.payload_start + self.payload_of(&split, index..index + 1).len()
        })
    }

    /// Describes a segment for the link, with the length of the first segment.
    pub(super) fn describe(&self) -> PacketInfo {
        // An IP packet has at most 64 KiB.
        ip::describe(self.packet(), self.segment_len(0) as u32)
    }

    /// Returns the IP packet as it came, with all segments in one.
    pub(super) fn packet(&self) -> &[u8] {
        &self.frame[VNET_HEADER..]
    }

    /// Returns the frame that carries a run of segments: headers, written to `headers`, and
    /// payload. With `mark_ce` its IP header is marked with congestion experienced.
    pub(super) fn run(&self, run: Range<usize>, mark_ce: bool, headers: &mut Vec<u8>) -> &[u8] {
        headers.clear();
        let payload = match &self.split {
            Some(split) if run != (0..self.segments()) => {
                headers.extend_from_slice(&self.frame[..VNET_HEADER + split.payload_start]);
                let payload = self.payload_of(split, run.clone());
                self.rewrite(split, run, payload.len(), headers);
                payload
            }
            _ => {
                // Unchanged parts need no copy.
                let copied = if mark_ce {
                    ip::header_len(self.packet())
                } else {
                    None
                };
                let (header, payload) = self.frame.split_at(VNET_HEADER + copied.unwrap_or(0));
                headers.extend_from_slice(header);
                payload
            }
        };
        if mark_ce
            && let Some(len) = ip::header_len(self.packet())
            && let Some(header) = headers.get_mut(VNET_HEADER..VNET_HEADER + len)
        {
            ip::mark_ce(header);
        }
        payload
    }

    fn payload_of(&self, split: &Split, run: Range<usize>) -> &[u8] {
        let payload = &self.packet()[split.payload_start..];
        let end = (run.end * split.segment_payload).min(payload.len());
        &payload[run.start * split.segment_payload..end]
    }

    /// Turns the whole packet's headers into those of a run of its segments.
    fn rewrite(&self, split: &Split, run: Range<usize>, payload_len: usize, headers: &mut [u8]) {
        let (vnet, packet) = headers.split_at_mut(VNET_HEADER);
        let transport_len = split.payload_start - split.transport_start;
        let whole_len = self.packet().len() - split.transport_start;
        let run_len = transport_len + payload_len;

        let (ip, transport) = packet.split_at_mut(split.transport_start);
        rewrite_ip(ip, run_len, run.start);
        // The checksum has the sum of the pseudo-header, with the length in it.
        let at = usize::from(u16::from_ne_bytes([
            vnet[CHECKSUM_OFFSET][0],
            vnet[CHECKSUM_OFFSET][1],
        ]));
        if let Some(checksum) = transport.get_mut(at..at + 2) {
            ip::replace_in_sum(checksum, whole_len, run_len);
        }
        match split.transport {
            Transport::Tcp => self.rewrite_tcp(split, &run, transport),
            Transport::Udp => transport[4..6].copy_from_slice(&be16(run_len)),
        }

        if run.len() == 1 {
            vnet[GSO_TYPE] = GSO_NONE;
            vnet[GSO_SIZE].fill(0);
        } else if run.start > 0 {
            vnet[GSO_TYPE] &= !GSO_ECN;
        }
        vnet[HEADER_LEN].copy_from_slice(&ne16(split.payload_start));
    }

    /// Sets the sequence number, and the flags of the first or last segment alone.
    fn rewrite_tcp(&self, split: &Split, run: &Range<usize>, tcp: &mut [u8]) {
        let sequence = u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]);
        // A super-packet has at most 64 KiB.
        let skipped = (run.start * split.segment_payload) as u32;
        tcp[4..8].copy_from_slice(&sequence.wrapping_add(skipped).to_be_bytes());
        if run.start > 0 {
            tcp[13] &= !TCP_CWR;
        }
        if run.end < self.segments() {
            tcp[13] &= !(TCP_FIN | TCP_PSH);
        }
    }
}

impl Split {
    fn new(transport: Transport, header: &[u8], packet: &[u8]) -> Option<Self> {
        let field = |range: Range<usize>| {
            usize::from(u16::from_ne_bytes([
                header[range.start],
                header[range.start + 1],
            ]))
        };
        let transport_start = field(CHECKSUM_START);
        let segment_payload = field(GSO_SIZE);
        let ip_header = match packet.first()? >> 4 {
            4 => 20,
            6 => 40,
            _ => return None,
        };
        let transport_header = packet.get(transport_start..)?;
        let transport_len = match transport {
            Transport::Tcp => usize::from(transport_header.get(12)? >> 4) * 4,
            Transport::Udp => 8,
        };
        let min_len = if transport == Transport::Tcp { 20 } else { 8 };
        let payload_start = transport_start + transport_len;
        let fits = transport_start >= ip_header
            && transport_len >= min_len
            && payload_start <= packet.len()
            && segment_payload > 0;
        fits.then_some(Self {
            transport,
            transport_start,
            payload_start,
            segment_payload,
        })
    }
}

/// Sets length, identification and header checksum of an IP header for a run
/// that begins at segment `first` and has `content_len` bytes behind `header`.
fn rewrite_ip(header: &mut [u8], content_len: usize, first: usize) {
    if header[0] >> 4 == 6 {
        // Extension headers count as payload.
        let len = header.len() - 40 + content_len;
        header[4..6].copy_from_slice(&be16(len));
        return;
    }
    let len = header.len() + content_len;
    header[2..4].copy_from_slice(&be16(len));
    let id = u16::from_be_bytes([header[4], header[5]]);
    header[4..6].copy_from_slice(&id.wrapping_add(first as u16).to_be_bytes());
    ip::update_checksum(header);
}

/// Lengths within an IP packet fit 16 bits.
fn be16(len: usize) -> [u8; 2] {
    (len as u16).to_be_bytes()
}

fn ne16(len: usize) -> [u8; 2] {
    (len as u16).to_ne_bytes()
}
