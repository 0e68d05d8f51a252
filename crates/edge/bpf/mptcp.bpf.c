/* Which of the sockets that listen on a port takes a connection: one speaks MPTCP, two speak TCP.
 * The kernel asks for each segment that belongs to no connection yet (SO_ATTACH_REUSEPORT_EBPF).
 * `scripts/bpf.sh` builds the object. */
#include <stdbool.h>
#include <stddef.h>
#include <linux/bpf.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "setting.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* The sockets' places in their group: the order in which they began to listen. */
enum listener {
	LISTENER_MPTCP,
	/* For segments that ask for no MPTCP, */
	LISTENER_TCP,
	/* and for connections that get TCP instead. */
	LISTENER_REFUSED,
};

/* Of how many in 2^32 of a client's connections MPTCP is taken, */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, MAX_PREFIXES);
	__type(key, struct prefix);
	__type(value, __u64);
} clients SEC(".maps");

/* and of all others'. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} share SEC(".maps");

/* RFC 8684 §3. */
enum {
	OPTION_MPTCP = 30,
	MP_CAPABLE = 0,
	/* No MPTCP in a segment. */
	NO_SUBTYPE = 16,
	/* NOPs included. */
	MAX_OPTIONS = 40,
};

static __always_inline bool read(struct __sk_buff *skb, __u32 at, void *to, __u32 size)
{
	return !bpf_skb_load_bytes_relative(skb, at, to, size, BPF_HDR_START_NET);
}

/* Takes the client's address and finds where TCP's header begins; 0 where that is not plain. */
static __always_inline __u32 read_network(struct __sk_buff *skb, struct prefix *client)
{
	__u8 version;

	if (!read(skb, 0, &version, 1))
		return 0;
	client->bits = 128;
	if (version >> 4 == 4) {
		__builtin_memset(client->address, 0, 10);
		client->address[10] = client->address[11] = 0xff;
		if (!read(skb, offsetof(struct iphdr, saddr), client->address + 12, 4))
			return 0;
		return (version & 15) * 4;
	}
	__u8 next;

	if (!read(skb, offsetof(struct ipv6hdr, nexthdr), &next, 1) || next != IPPROTO_TCP ||
	    !read(skb, offsetof(struct ipv6hdr, saddr), client->address, 16))
		return 0;
	return sizeof(struct ipv6hdr);
}

/* The subtype of the first MPTCP option between `at` and `end`. */
static __always_inline __u8 mptcp_subtype(struct __sk_buff *skb, __u32 at, __u32 end)
{
	for (int i = 0; i < MAX_OPTIONS && at < end; i++) {
		__u8 kind, length, subtype;

		if (!read(skb, at, &kind, 1) || kind == 0)
			break;
		if (kind == 1) {
			at++;
			continue;
		}
		if (!read(skb, at + 1, &length, 1) || length < 2)
			break;
		if (kind == OPTION_MPTCP)
			return read(skb, at + 2, &subtype, 1) ? subtype >> 4 : NO_SUBTYPE;
		at += length;
	}
	return NO_SUBTYPE;
}

static __always_inline bool is_taken(struct prefix *client)
{
	__u32 first = 0;
	__u64 *of_it = bpf_map_lookup_elem(&clients, client);

	if (!of_it)
		of_it = bpf_map_lookup_elem(&share, &first);
	return !of_it || bpf_get_prandom_u32() < *of_it;
}

SEC("socket")
int choose_listener(struct __sk_buff *skb)
{
	struct prefix client;
	__u8 offset_and_flags[2];
	__u32 tcp = read_network(skb, &client);

	/* What is not understood goes where it would without this program. */
	if (!tcp || !read(skb, tcp + 12, offset_and_flags, 2))
		return LISTENER_MPTCP;
	bool syn = offset_and_flags[1] & 2;
	__u32 end = tcp + (offset_and_flags[0] >> 4) * 4;
	__u8 subtype = mptcp_subtype(skb, tcp + sizeof(struct tcphdr), end);

	if (subtype == NO_SUBTYPE)
		return LISTENER_TCP;
	/* Further subflows (MP_JOIN) are of connections that are there, and acknowledgements (of SYN
	 * cookies) of connections that were taken. */
	if (subtype != MP_CAPABLE || !syn)
		return LISTENER_MPTCP;
	return is_taken(&client) ? LISTENER_MPTCP : LISTENER_REFUSED;
}
