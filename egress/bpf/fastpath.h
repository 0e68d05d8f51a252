/* The fast path, for the common frame: Ethernet, IPv6 with at most an SRH of one segment, in
 * that (or alone, without SRv6) IPv6 or IPv4 without options, TCP or UDP. It takes
 * few branches and no call: most of what reading headers costs is fetching code
 * that is not cached, and returns, which the kernel keeps from being predicted on
 * many CPUs. */
#pragma once
#include "parse.h"

struct common_frame {
	struct ethernet ethernet;
	struct ipv6 ip;
} __attribute__((packed));

/* As read_outer, with the SID in to. Returns where the packet with the 5-tuple begins, 0 for a frame of the slow path. */
INLINE void *fast_outer(void *start, void *end, struct frame *frame, struct pending *to)
{
	struct common_frame *outer = start;
	struct srh *srh = (void *)(outer + 1);

	if (link_header != sizeof(outer->ethernet) || (void *)(outer + 1) > end)
		return 0;
	frame->tunnel = 0;
	frame->proto = PROTO_IPV4;
	if (outer->ethernet.type == htons(ETH_P_IP))
		return &outer->ip;
	if (outer->ethernet.type != htons(ETH_P_IPV6) || outer->ip.version >> 4 != 6)
		return 0;
	frame->proto = PROTO_IPV6;
	if (outer->ip.next == PROTO_TCP || outer->ip.next == PROTO_UDP)
		return &outer->ip;
	frame->tunnel = 1;
	if (outer->ip.next != PROTO_ROUTING) {
		to->sid = outer->ip.dst;
		frame->proto = outer->ip.next;
		return srh;
	}
	if ((void *)(srh + 1) > end || srh->length != 2 || srh->type != ROUTING_SRH ||
	    srh->last_entry || srh->segments_left > 1)
		return 0;
	to->sid = srh->last_segment;
	frame->proto = srh->next;
	return srh + 1;
}

/* Reads the addresses. Returns where the transport begins, 0 for a frame of the slow path. */
INLINE __u8 *fast_addresses(void *inner, void *end, const struct frame *frame, __u64 *word, __u8 *proto)
{
	struct ipv6 *ip6 = inner;
	struct ipv4 *ip4 = inner;

	if (frame->proto == PROTO_IPV6) {
		if ((void *)(ip6 + 1) > end || ip6->version >> 4 != 6)
			return 0;
		word[0] = ip6->src.word[0];
		word[1] = ip6->src.word[1];
		word[2] = ip6->dst.word[0];
		word[3] = ip6->dst.word[1];
		word[4] = 6ull << 56;
		*proto = ip6->next;
		return (void *)(ip6 + 1);
	}
	if (frame->proto != PROTO_IPV4 || (void *)(ip4 + 1) > end || ip4->version_ihl != 0x45 ||
	    ip4->fragment & htons(IPV4_FRAGMENT))
		return 0;
	word[0] = ip4->src;
	word[1] = 0;
	word[2] = ip4->dst;
	word[3] = 0;
	word[4] = 4ull << 56;
	*proto = ip4->proto;
	return (void *)(ip4 + 1);
}

/* Reads a frame as parse does, but its key and SID straight into to. Where it returns 0,
 * parse has to be called. */
INLINE int read_fast(struct __sk_buff *skb, struct frame *frame, struct pending *to)
{
	void *start = (void *)(unsigned long)skb->data;
	void *end = (void *)(unsigned long)skb->data_end;
	void *inner = fast_outer(start, end, frame, to);
	__u8 *transport, proto;
	__u32 size = 8;

	if (!inner)
		return 0;
	if (!frame->tunnel && !count_plain)
		return 1; /* need not be read any further */
	transport = fast_addresses(inner, end, frame, to->key.word, &proto);
	if (!transport || (void *)transport + 20 > end)
		return 0;
	if (proto == PROTO_TCP)
		size = (transport[12] >> 4) * 4;
	else if (proto != PROTO_UDP)
		return 0;
	frame->header = (void *)transport - start + size;
	to->key.word[4] |= *(__u32 *)transport | unknown_index(frame) | (__u64)proto << 48;
	return proto == PROTO_UDP || (size >= 20 && frame->header <= end - start);
}
