//! A PROXY header that comes piece by piece: however it is read, no byte behind it is asked for.
#![no_main]

use hikyaku_edge::proxy_protocol::{Progress, read};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut end = 0;
    while let Ok(progress) = read(&data[..end]) {
        match progress {
            Progress::Needs(count) => {
                assert!(count > 0 && end + count <= LONGEST);
                end += count;
                if end > data.len() {
                    return;
                }
            }
            Progress::Whole(header) => {
                // A piece of it asks for no more than the whole.
                for piece in 0..end {
                    let Ok(Progress::Needs(count)) = read(&data[..piece]) else {
                        panic!("{piece} of {end} bytes of {header:?}");
                    };
                    assert!(piece + count <= end);
                }
                return;
            }
        }
    }
});

/// Bytes of the longest header that is read.
const LONGEST: usize = 16 + 4096;
