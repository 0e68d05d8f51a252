/* How soon a lost SYN-ACK is sent again. The kernel waits a second, since it knows nothing of the path
 * (RFC 6298 §2.1). Former connections from the client's network have shown its round-trip time (RFC 9040,
 * sharing over time). The kernel asks for the first timeout of each connection that clients begin.
 * `scripts/bpf.sh` builds the object. */
#include <stdbool.h>
#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

enum {
	AF_INET = 2,
	/* Of the kernel's own timeouts, in milliseconds: the least one, and the first one. */
	LEAST = 200,
	FIRST = 1000,
	/* RFC 6298 §2.2: what a first sample of R gives, R + 4 R / 2. */
	ROUND_TRIPS = 3,
	/* A shorter round trip counts as this part of the difference. */
	FALL = 8,
	MAX_NETWORKS = 16384,
	MAX_PORTS = 1024,
};

/* A client's /24 or /48, as the begin of an IPv6 address; IPv4 as ::ffff:0:0/96. */
struct network {
	__be32 words[4];
};

/* The server's own sockets. */
struct terms {
	__u64 netns_cookie;
	/* Of the kernel's clock. */
	__u32 ticks_per_second;
	__u32 reserved;
};
_Static_assert(sizeof(struct terms) == 16, "the server writes 16 bytes");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct terms);
} terms SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_PORTS);
	__type(key, __u32);
	__type(value, __u8);
} ports SEC(".maps");

/* Round-trip times in microseconds. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_NETWORKS);
	__type(key, struct network);
	__type(value, __u32);
} networks SEC(".maps");

static __always_inline struct terms *terms_of(struct bpf_sock_ops *ops)
{
	__u32 first = 0, port = ops->local_port;
	struct terms *ours = bpf_map_lookup_elem(&terms, &first);

	if (!ours || ours->netns_cookie != bpf_get_netns_cookie(ops) ||
	    !bpf_map_lookup_elem(&ports, &port))
		return 0;
	return ours;
}

static __always_inline struct network network_of(struct bpf_sock_ops *ops)
{
	struct network network = {};
	__be32 ipv4 = ops->remote_ip4;

	/* The verifier takes no access whose offset the compiler has made of both. */
	barrier_var(ipv4);
	if (ops->family == AF_INET) {
		network.words[2] = bpf_htonl(0xffff);
		network.words[3] = ipv4;
	} else {
		network.words[0] = ops->remote_ip6[0];
		network.words[1] = ops->remote_ip6[1];
		network.words[2] = ops->remote_ip6[2];
		network.words[3] = ops->remote_ip6[3];
	}
	if (!network.words[0] && !network.words[1] && network.words[2] == bpf_htonl(0xffff)) {
		network.words[3] &= bpf_htonl(0xffffff00);
	} else {
		network.words[1] &= bpf_htonl(0xffff0000);
		network.words[2] = network.words[3] = 0;
	}
	return network;
}

/* Larger times count at once, since a timeout that is too short sends for nothing. */
static __always_inline void learn(struct bpf_sock_ops *ops)
{
	struct network network = network_of(ops);
	/* In eighths; unknown if 0, as after a SYN-ACK that was sent twice. */
	__u32 rtt = ops->srtt_us >> 3;
	__u32 *known = bpf_map_lookup_elem(&networks, &network);

	if (!rtt)
		return;
	if (known && *known > rtt)
		rtt = *known - (*known - rtt) / FALL;
	bpf_map_update_elem(&networks, &network, &rtt, BPF_ANY);
}

static __always_inline void choose_timeout(struct bpf_sock_ops *ops, __u32 ticks_per_second)
{
	struct network network = network_of(ops);
	__u32 *rtt = bpf_map_lookup_elem(&networks, &network);
	__u64 millis;

	if (!rtt)
		return;
	millis = (__u64)*rtt * ROUND_TRIPS / 1000;
	if (millis < LEAST)
		millis = LEAST;
	if (millis < FIRST)
		ops->reply = millis * ticks_per_second / 1000;
}

SEC("sockops")
int time_handshakes(struct bpf_sock_ops *ops)
{
	struct terms *ours;

	/* Connections that this machine begins have a socket already. */
	bool is_request = ops->op == BPF_SOCK_OPS_TIMEOUT_INIT && !ops->is_fullsock;

	if (!is_request && ops->op != BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB)
		return 1;
	ours = terms_of(ops);
	if (!ours)
		return 1;
	if (is_request)
		choose_timeout(ops, ours->ticks_per_second);
	else
		learn(ops);
	return 1;
}
