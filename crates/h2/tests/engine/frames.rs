//! Frames of the connection, by the sentences of RFC 9113. Many cases are those of h2spec.

use crate::rules::{FLOW, PROTOCOL, SIZE, check};
use crate::wire::{GET, WHOLE, frame, headers, settings, window};

#[test]
fn frames_of_the_connection() {
    let large = vec![0; 16_385];
    check(vec![
        (
            "§6.5: SETTINGS",
            vec![settings(&[(3, 9)])],
            "",
            "SETTINGS ack",
        ),
        ("§6.5: on a stream", vec![frame(4, 0, 1, &[])], PROTOCOL, ""),
        (
            "§6.5: half a setting",
            vec![frame(4, 0, 0, &[0; 5])],
            SIZE,
            "",
        ),
        (
            "§6.5: an acknowledgement with settings",
            vec![frame(4, 1, 0, &[0; 6])],
            SIZE,
            "",
        ),
        (
            "§6.5.2: ENABLE_PUSH of 2",
            vec![settings(&[(2, 2)])],
            PROTOCOL,
            "",
        ),
        (
            "§6.5.2: a window beyond 31 bits",
            vec![settings(&[(4, 1 << 31)])],
            FLOW,
            "",
        ),
        (
            "§6.5.2: MAX_FRAME_SIZE",
            vec![settings(&[(5, 1)])],
            PROTOCOL,
            "",
        ),
        (
            "§6.7: PING",
            vec![frame(6, 0, 0, b"01234567")],
            "",
            "PING ack 01234567",
        ),
        (
            "§6.7: an answer",
            vec![frame(6, 1, 0, b"01234567")],
            "pong 01234567",
            "",
        ),
        (
            "§6.7: on a stream",
            vec![frame(6, 0, 1, &[0; 8])],
            PROTOCOL,
            "",
        ),
        (
            "§6.7: another size than 8",
            vec![frame(6, 0, 0, &[0; 6])],
            SIZE,
            "",
        ),
        (
            "§6.8: GOAWAY",
            vec![frame(7, 0, 0, &[0; 8])],
            "goaway NO_ERROR",
            "",
        ),
        (
            "§6.8: on a stream",
            vec![frame(7, 0, 1, &[0; 8])],
            PROTOCOL,
            "",
        ),
        ("§6.8: truncated", vec![frame(7, 0, 0, &[0; 7])], SIZE, ""),
        ("§6.9: WINDOW_UPDATE", vec![window(0, 1)], "", ""),
        ("§6.9: of 0", vec![window(0, 0)], PROTOCOL, ""),
        (
            "§6.9: of 0 on a stream",
            vec![headers(1, WHOLE, GET), window(1, 0)],
            "GET 1 end, fault 1 PROTOCOL_ERROR",
            "RST_STREAM 1 PROTOCOL_ERROR",
        ),
        (
            "§6.9: another size than 4",
            vec![frame(8, 0, 0, &[0; 3])],
            SIZE,
            "",
        ),
        (
            "§6.9.1: beyond 2^31-1",
            vec![window(0, 0x7fff_ffff), window(0, 1)],
            FLOW,
            "",
        ),
        (
            "§6.9.1: beyond it on a stream",
            vec![headers(1, WHOLE, GET), window(1, 0x7fff_ffff)],
            "GET 1 end, fault 1 FLOW_CONTROL_ERROR",
            "RST_STREAM 1 FLOW_CONTROL_ERROR",
        ),
        (
            "§6.9.2: beyond it by settings",
            vec![
                headers(1, WHOLE, GET),
                window(1, 0x7fff_0000),
                settings(&[(4, 0x7fff_ffff)]),
            ],
            "GET 1 end, error FLOW_CONTROL_ERROR",
            "",
        ),
        (
            "§6.3: PRIORITY on stream 0",
            vec![frame(2, 0, 0, &[0; 5])],
            PROTOCOL,
            "",
        ),
        (
            "§6.3: of another size than 5",
            vec![headers(1, WHOLE, GET), frame(2, 0, 1, &[0; 4])],
            "GET 1 end, fault 1 FRAME_SIZE_ERROR",
            "RST_STREAM 1 FRAME_SIZE_ERROR",
        ),
        (
            "RFC 7540 §5.3.1: of itself",
            vec![frame(2, 0, 1, &[0, 0, 0, 1, 9])],
            PROTOCOL,
            "",
        ),
        (
            "§8.4: a push by a client",
            vec![frame(5, 4, 1, &[0, 0, 0, 2])],
            PROTOCOL,
            "",
        ),
        (
            "§4.1: unknown types",
            vec![frame(99, 0xff, 7, b"unknown"), headers(1, WHOLE, GET)],
            "GET 1 end",
            "",
        ),
        (
            "§4.1: undefined flags",
            vec![frame(6, 0xfe, 0, b"01234567")],
            "",
            "PING ack 01234567",
        ),
        (
            "§4.2: beyond MAX_FRAME_SIZE",
            vec![frame(0, 0, 1, &large)],
            SIZE,
            "",
        ),
        (
            "RFC 9218 §7.1: PRIORITY_UPDATE",
            vec![frame(16, 0, 0, b"\0\0\0\x01u=1")],
            "",
            "",
        ),
        (
            "RFC 9218 §7.1: on a stream",
            vec![frame(16, 0, 1, b"\0\0\0\x01u=1")],
            PROTOCOL,
            "",
        ),
        (
            "RFC 9218 §7.1: of stream 0",
            vec![frame(16, 0, 0, b"\0\0\0\0u=1")],
            PROTOCOL,
            "",
        ),
        (
            "RFC 9218 §7.1: without a stream",
            vec![frame(16, 0, 0, b"\0\0\0")],
            SIZE,
            "",
        ),
        (
            "RFC 9218 §2.1: NO_RFC7540_PRIORITIES changes",
            vec![settings(&[(9, 1)])],
            PROTOCOL,
            "",
        ),
    ]);
}
