//! HTTP/3 frames, as any peer may send them, in pieces of any size. The first byte says
//! how large.
#![no_main]

use hikyaku_h3::FrameGuard;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((&size, stream)) = data.split_first() else {
        return;
    };
    for start in [FrameGuard::request, FrameGuard::unidirectional] {
        let whole = start().observe(stream);
        let mut guard = start();
        let mut pieces = stream.chunks(usize::from(size).max(1));
        let split = pieces.try_for_each(|piece| guard.observe(piece));
        assert_eq!(whole, split, "pieces of {size} bytes change the verdict");
    }
});
