/* Settings from the server for the congestion controls; `crates/edge/src/tcp_cc/setting.rs` has the same. */
#pragma once

struct setting {
	/* Least congestion window of hk_cubic and hk_bbr, in bytes; 0 for none. */
	__u32 floor;
	/* Congestion window to begin with, in packets; 0 for the kernel's own. */
	__u32 init_window;
	/* Bytes that filled the path before, for hk_fair; 0 if unknown. */
	__u64 known_bdp;
	/* The path's least RTT then, in microseconds. */
	__u32 known_min_rtt;
	__u32 reserved;
};
_Static_assert(sizeof(struct setting) == 24, "the server writes 24 bytes");

/* Key of a longest-prefix match; IPv4 addresses as ::ffff:0:0/96. */
struct prefix {
	__u32 bits;
	__u8 address[16];
};
_Static_assert(sizeof(struct prefix) == 20, "the server writes 20 bytes");

/* Prefixes that can have settings of their own. */
#define MAX_PREFIXES 65536
