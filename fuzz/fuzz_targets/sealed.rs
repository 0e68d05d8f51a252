//! The check behind the store's records: no made-up input would have the right one.

const CHECK_LEN: usize = 4;

/// Puts a valid check into the last bytes of a record, where there is room.
pub fn seal(record: &mut [u8]) {
    let Some(end) = record.len().checked_sub(CHECK_LEN) else {
        return;
    };
    let (body, check) = record.split_at_mut(end);
    let sum = body.chunks(8).fold(body.len() as u64, |sum, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        mix(sum ^ u64::from_le_bytes(word))
    });
    check.copy_from_slice(&sum.to_le_bytes()[..CHECK_LEN]);
}

/// The finaliser of SplitMix64.
fn mix(value: u64) -> u64 {
    let z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
