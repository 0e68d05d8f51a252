//! The server's settings for the congestion controls: `bpf/setting.h` has the same.

use hikyaku_units::SavedPath;

/// Setting of the controls for a socket, or for all sockets whose peers share a prefix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Setting {
    /// Least window of the fixed floor, in bytes; 0 for none.
    pub floor: u32,
    /// Window to begin with, in packets; 0 for the kernel's own.
    pub init_window: u32,
    /// Knowledge of the path from before, for the fair floor.
    pub known: Option<SavedPath>,
}

impl Setting {
    pub(super) fn encode(&self) -> [u8; 24] {
        let known = self.known.map_or((0, 0), |known| {
            let micros = u32::try_from(known.min_rtt.as_micros()).unwrap_or(u32::MAX);
            (known.bdp.bytes(), micros)
        });
        let mut bytes = [0; 24];
        bytes[0..4].copy_from_slice(&self.floor.to_ne_bytes());
        bytes[4..8].copy_from_slice(&self.init_window.to_ne_bytes());
        bytes[8..16].copy_from_slice(&known.0.to_ne_bytes());
        bytes[16..20].copy_from_slice(&known.1.to_ne_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hikyaku_units::ByteSize;

    use super::*;

    #[test]
    fn settings_are_laid_out_as_the_kernel_program_reads_them() {
        let setting = Setting {
            floor: 1,
            init_window: 2,
            known: Some(SavedPath {
                bdp: ByteSize::from_bytes(3),
                min_rtt: Duration::from_micros(4),
            }),
        };
        let words =
            |at: usize| u32::from_ne_bytes(setting.encode()[at..at + 4].try_into().unwrap());
        assert_eq!((words(0), words(4), words(16), words(20)), (1, 2, 4, 0));
        assert_eq!(setting.encode()[8..16], 3_u64.to_ne_bytes());
        assert_eq!(Setting::default().encode(), [0; 24]);
    }
}
