/* What the program and user space share: the tables, which user space maps into
 * its memory, and the constants it sets before loading. The Go side is
 * bpf.go; a test compares both by BTF. Every entry is one cache line. */
#pragma once
#include "kernel.h"

/* State of an entry. The program takes FREE to CLAIMED by compare-and-swap,
 * writes the key and publishes LIVE. User space alone takes LIVE to RETIRED
 * (the program no longer finds it) and, once no CPU can still be adding to it,
 * RETIRED to FREE. */
enum {
	STATE_FREE = 0,
	STATE_CLAIMED = 1,
	STATE_LIVE = 2,
	STATE_RETIRED = 3,
};

/* Words of a flow's key: source, destination (IPv4 in the first four bytes, the
 * rest zero), and ports in network order | SID index << 32 | protocol << 48 |
 * family (4 or 6) << 56. */
enum {
	KEY_WORDS = 5,
	KEY_INDEX_SHIFT = 32, /* in the last word */
};

struct key {
	__u64 word[KEY_WORDS];
};

struct address {
	__u64 word[2];
};

struct flow {
	struct key key;
	__u32 state;
	__u32 reserved;
	__u64 packets;
	__u64 bytes;
};
_Static_assert(sizeof(struct flow) == 64, "a flow is one cache line");

/* Marks of groups of places: not 0 when a flow there may have grown since user
 * space looked. User space clears a mark before it looks, the program sets it
 * after it has added. */
enum {
	GROUP_PLACES = 64,
	MARKS = 64,
};

struct marks {
	__u8 group[MARKS];
};
_Static_assert(sizeof(struct marks) == 64, "marks are one cache line");

struct sid {
	struct address address;
	__u32 state;
	__u32 reserved;
	__u64 overflow_packets; /* of flows without room in the table */
	__u64 overflow_bytes;
	__u64 opaque_packets; /* without a readable 5-tuple */
	__u64 opaque_bytes;
	__u64 reserved2;
};
_Static_assert(sizeof(struct sid) == 64, "a SID is one cache line");

/* A packet, or a train of one flow, that waits on its CPU to be added to its flow.
 * While it waits, the key has SID_UNKNOWN as the index of any SID. */
struct pending {
	struct key key;
	union {
		struct address sid;
		__u64 home; /* later: where to look first, before masking */
	};
	__u32 packets, bytes; /* on the wire */
};
_Static_assert(sizeof(struct pending) == 64, "a waiting packet is one cache line");

enum {
	BATCH = 64, /* power of two */
};

/* One for each CPU, which alone writes it. The egress hook runs with bottom halves
 * disabled, so only an interrupt can come between: drain. */
struct batch {
	__u32 busy;         /* the CPU is counting a packet: drain keeps off */
	__u32 waiting;      /* entries in use; less than BATCH between packets */
	struct address sid; /* the last one looked up, and its index if that is not 0 */
	__u32 index;
	__u32 reserved[9];
	struct pending entry[BATCH];
};

enum {
	SID_SLOTS = 1024, /* power of two */
	SID_NONE = 0,     /* packets without SRv6 */
	SID_UNKNOWN = 1,  /* SIDs without room in the table */
	SID_WINDOW = 16,  /* places looked at for a SID */
	FLOW_WINDOW = 64, /* places looked at for a flow */
	HASH_KEYS = 2 * KEY_WORDS + 1,
};

/* Set by user space before loading. */
const volatile __u64 hash_keys[HASH_KEYS];        /* random */
const volatile __u32 flow_mask = (1 << 18) - 1;   /* places in the flow table - 1 */
const volatile __u32 link_header = 14;            /* bytes; 0 without Ethernet */
const volatile __u8 count_plain;                  /* packets without SRv6, too */

/* A frame whose headers are being read; not shared. */
struct frame {
	struct key flow;
	struct address sid;
	__u32 header; /* bytes read as headers so far */
	__u32 tunnel; /* sent to a SID */
	__u32 proto;  /* PROTO_IPV6 or PROTO_IPV4: the packet with the 5-tuple */
};
