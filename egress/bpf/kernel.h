/* The part of the kernel's user-space API that flows.bpf.c needs, so that the
 * object depends on the compiler alone and not on the headers of the machine
 * that builds it. Values and layouts are those of linux/bpf.h and netinet. */
#pragma once

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;

enum {
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_F_MMAPABLE = 1 << 10,
	TC_ACT_UNSPEC = -1, /* also TCX_NEXT: go on with the next program */
};

/* The context of tc programs (struct __sk_buff), up to the last field used. */
struct __sk_buff {
	__u32 len;
	__u32 pkt_type;
	__u32 mark;
	__u32 queue_mapping;
	__u32 protocol;
	__u32 vlan_present;
	__u32 vlan_tci;
	__u32 vlan_proto;
	__u32 priority;
	__u32 ingress_ifindex;
	__u32 ifindex;
	__u32 tc_index;
	__u32 cb[5];
	__u32 hash;
	__u32 tc_classid;
	__u32 data;
	__u32 data_end;
	__u32 napi_id;
	__u32 family;
	__u32 remote_ip4;
	__u32 local_ip4;
	__u32 remote_ip6[4];
	__u32 local_ip6[4];
	__u32 remote_port;
	__u32 local_port;
	__u32 data_meta;
	__u64 flow_keys;
	__u64 tstamp;
	__u32 wire_len;
	__u32 gso_segs;
	__u64 sk;
	__u32 gso_size;
};
_Static_assert(__builtin_offsetof(struct __sk_buff, gso_size) == 176, "UAPI layout");

/* The context of raw tracepoint programs. */
struct bpf_raw_tracepoint_args {
	__u64 args[1];
};

static void *(*const bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static __u32 (*const bpf_get_smp_processor_id)(void) = (void *)8;
static long (*const bpf_skb_pull_data)(struct __sk_buff *skb, __u32 len) = (void *)39;

#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
/* A function that the verifier checks once by itself, not anew for each path to
 * its call. Its pointers may be null as far as the verifier knows. */
#define GLOBAL __attribute__((noinline))
#define READ_ONCE(x) (*(const volatile typeof(x) *)&(x))
#define WRITE_ONCE(x, value) (*(volatile typeof(x) *)&(x) = (value))
/* Keeps the compiler's order of memory accesses, which an interrupt on the same CPU sees. */
#define barrier() asm volatile("" ::: "memory")

/* How BTF describes a map's fields. */
#define __uint(name, value) int(*name)[value]
#define __type(name, value) typeof(value) *name

/* The target is little-endian only (-target bpfel). */
#define htons(x) ((__u16)__builtin_bswap16(x))

enum {
	ETH_P_IP = 0x0800,
	ETH_P_8021Q = 0x8100,
	ETH_P_IPV6 = 0x86dd,
	ETH_P_8021AD = 0x88a8,
};

enum {
	PROTO_HOPOPTS = 0,
	PROTO_ICMP = 1,
	PROTO_IPV4 = 4,
	PROTO_TCP = 6,
	PROTO_UDP = 17,
	PROTO_DCCP = 33,
	PROTO_IPV6 = 41,
	PROTO_ROUTING = 43,
	PROTO_FRAGMENT = 44,
	PROTO_AH = 51,
	PROTO_ICMPV6 = 58,
	PROTO_DSTOPTS = 60,
	PROTO_SCTP = 132,
	PROTO_UDPLITE = 136,
};
