/* Reading a frame's headers: link, VLAN tags, outer IPv6 with its extension
 * headers and SRH, inner IPv6 or IPv4, transport. */
#pragma once
#include "flows.h"

enum {
	MAX_HEADERS = 4096,  /* as much is brought into the linear part */
	MAX_VLAN_TAGS = 2,
	MAX_OUTER = 4096,    /* power of two; headers before the inner packet */
	MAX_EXTENSIONS = 4,  /* a chain that is longer is opaque */
	ROUTING_SRH = 4,
	IPV4_FRAGMENT = 0x3fff, /* offset and "more fragments" */
	IPV6_FRAGMENT = 0xfff9,
};

enum verdict {
	VERDICT_FLOW,   /* frame->flow is the flow's, without the SID's index */
	VERDICT_OPAQUE, /* no readable 5-tuple */
	VERDICT_SHORT,  /* the same, because the linear part or the frame ends */
};

struct ethernet {
	__u16 address[6];
	__u16 type;
};

struct vlan {
	__u16 tci;
	__u16 type;
};

struct ipv4 {
	__u8 version_ihl;
	__u8 tos;
	__u16 length;
	__u16 id;
	__u16 fragment;
	__u8 ttl;
	__u8 proto;
	__u16 checksum;
	__u32 src, dst;
};

struct ipv6 {
	__u8 version, rest[3];
	__u16 length;
	__u8 next;
	__u8 hop_limit;
	struct address src, dst;
};

struct extension {
	__u8 next;
	__u8 length; /* in units of 8 bytes without the first (AH: 4 and 2) */
	__u16 detail; /* routing type and segments left, or fragment offset */
	__u32 rest;
};

/* RFC 8754 §2 */
struct srh {
	__u8 next;
	__u8 length;
	__u8 type;
	__u8 segments_left;
	__u8 last_entry;
	__u8 flags;
	__u16 tag;
	struct address last_segment; /* Segment List[0] */
};

struct cursor {
	void *pos, *end;
};

/* What a chain of extension headers said. */
struct chain {
	__u8 next;       /* the protocol after it */
	__u8 fragment;   /* no transport header follows, or only a part */
	__u8 has_srh;
	struct address sid; /* the SRH's last segment, else what it was set to */
};

INLINE void *take(struct cursor *cursor, __u32 size)
{
	void *at = cursor->pos;

	if (at + size > cursor->end)
		return 0;
	cursor->pos = at + size;
	return at;
}

/* RFC 8754 §2; with reduced encapsulation Segments Left may be one more than
 * Last Entry (§4.1.1). */
INLINE enum verdict read_srh(void *at, const void *end, struct chain *chain)
{
	struct srh *srh = at;

	chain->has_srh = 1;
	if (at + sizeof(*srh) > end)
		return VERDICT_SHORT;
	if (srh->length < (srh->last_entry + 1) * 2 || srh->segments_left > srh->last_entry + 1)
		return VERDICT_OPAQUE;
	chain->sid = srh->last_segment;
	return VERDICT_FLOW;
}

/* Skips extension headers. What follows a fragment header is not looked at:
 * only the first fragment would have it. */
INLINE enum verdict skip_extensions(struct cursor *cursor, struct chain *chain)
{
#pragma unroll
	for (int i = 0; i < MAX_EXTENSIONS; i++) {
		struct extension *ext = cursor->pos;
		__u32 size;

		switch (chain->next) {
		case PROTO_HOPOPTS:
		case PROTO_DSTOPTS:
		case PROTO_ROUTING:
		case PROTO_FRAGMENT:
		case PROTO_AH:
			break;
		default:
			return VERDICT_FLOW;
		}
		if ((void *)(ext + 1) > cursor->end)
			return VERDICT_SHORT;
		if (chain->next == PROTO_ROUTING && (ext->detail & 0xff) == ROUTING_SRH) {
			enum verdict verdict = read_srh(ext, cursor->end, chain);

			if (verdict != VERDICT_FLOW)
				return verdict;
		}
		size = (ext->length + 1) * 8;
		if (chain->next == PROTO_AH)
			size = (ext->length + 2) * 4;
		if (chain->next == PROTO_FRAGMENT) {
			size = 8;
			chain->fragment = !!(ext->detail & htons(IPV6_FRAGMENT));
		}
		chain->next = ext->next;
		if (!take(cursor, size))
			return VERDICT_SHORT;
		if (chain->fragment)
			return VERDICT_FLOW;
	}
	return VERDICT_OPAQUE;
}

/* Skips a header of a fixed size and reads its ports as they lie in the packet. */
INLINE enum verdict read_ports(struct cursor *cursor, __u32 size, __u32 *ports)
{
	__u32 *at = take(cursor, size);

	if (!at)
		return VERDICT_SHORT;
	*ports = *at;
	return VERDICT_FLOW;
}

INLINE enum verdict read_tcp(struct cursor *cursor, __u32 *ports)
{
	__u8 *at = take(cursor, 20);
	__u32 size;

	if (!at)
		return VERDICT_SHORT;
	*ports = *(__u32 *)at;
	size = (at[12] >> 4) * 4;
	if (size < 20)
		return VERDICT_OPAQUE;
	return take(cursor, size - 20) ? VERDICT_FLOW : VERDICT_SHORT;
}

INLINE enum verdict read_transport(struct cursor *cursor, __u8 proto, __u32 *ports)
{
	enum verdict verdict;

	switch (proto) {
	case PROTO_TCP:
		return read_tcp(cursor, ports);
	case PROTO_UDP:
	case PROTO_UDPLITE:
		return read_ports(cursor, 8, ports);
	case PROTO_SCTP:
	case PROTO_DCCP:
		return read_ports(cursor, 12, ports);
	case PROTO_ICMP:
	case PROTO_ICMPV6:
		verdict = read_ports(cursor, 4, ports);
		*ports <<= 16; /* type and code take the destination port's place */
		return verdict;
	default:
		return VERDICT_FLOW;
	}
}

INLINE enum verdict read_ipv4(struct cursor *cursor, struct key *key, struct chain *chain)
{
	struct ipv4 *ip = take(cursor, sizeof(*ip));
	__u32 size;

	if (!ip)
		return VERDICT_SHORT;
	size = (ip->version_ihl & 15) * 4;
	if (ip->version_ihl >> 4 != 4 || size < sizeof(*ip))
		return VERDICT_OPAQUE;
	key->word[0] = ip->src;
	key->word[1] = 0;
	key->word[2] = ip->dst;
	key->word[3] = 0;
	key->word[4] = 4ull << 56;
	chain->next = ip->proto;
	chain->fragment = !!(ip->fragment & htons(IPV4_FRAGMENT));
	return take(cursor, size - sizeof(*ip)) ? VERDICT_FLOW : VERDICT_SHORT;
}

INLINE enum verdict read_ipv6(struct cursor *cursor, struct key *key, struct chain *chain)
{
	struct ipv6 *ip = take(cursor, sizeof(*ip));

	if (!ip)
		return VERDICT_SHORT;
	if (ip->version >> 4 != 6)
		return VERDICT_OPAQUE;
	key->word[0] = ip->src.word[0];
	key->word[1] = ip->src.word[1];
	key->word[2] = ip->dst.word[0];
	key->word[3] = ip->dst.word[1];
	key->word[4] = 6ull << 56;
	chain->next = ip->next;
	return skip_extensions(cursor, chain);
}

/* The part of a key that stands for a SID that has not been looked up, if there is one. */
INLINE __u64 unknown_index(const struct frame *frame)
{
	return frame->tunnel ? (__u64)SID_UNKNOWN << KEY_INDEX_SHIFT : 0;
}

/* Reads the 5-tuple of the IP packet at frame->header, and moves that to the
 * transport's payload (ICMP's header is taken as 4 bytes: it has no GSO). */
GLOBAL enum verdict read_flow(struct __sk_buff *skb, struct frame *frame)
{
	void *start = (void *)(unsigned long)skb->data;
	struct cursor cursor = { start, (void *)(unsigned long)skb->data_end };
	struct chain chain = {};
	enum verdict verdict;
	__u32 ports = 0;

	if (!frame || !take(&cursor, frame->header & (MAX_OUTER - 1)))
		return VERDICT_SHORT;
	if (frame->proto == PROTO_IPV4)
		verdict = read_ipv4(&cursor, &frame->flow, &chain);
	else
		verdict = read_ipv6(&cursor, &frame->flow, &chain);
	if (verdict == VERDICT_FLOW && !chain.fragment)
		verdict = read_transport(&cursor, chain.next, &ports);
	frame->flow.word[4] |= ports | unknown_index(frame) | (__u64)chain.next << 48;
	frame->header = cursor.pos - start;
	return verdict;
}

/* Returns the network protocol after link header and VLAN tags, 0 if cut off. */
INLINE __u16 read_link(struct __sk_buff *skb, struct cursor *cursor)
{
	struct ethernet *ethernet;
	__u16 type;

	if (!link_header)
		return skb->protocol;
	ethernet = take(cursor, sizeof(*ethernet));
	if (!ethernet)
		return 0;
	type = ethernet->type;
#pragma unroll
	for (int i = 0; i < MAX_VLAN_TAGS; i++) {
		struct vlan *vlan;

		if (type != htons(ETH_P_8021Q) && type != htons(ETH_P_8021AD))
			break;
		vlan = take(cursor, sizeof(*vlan));
		if (!vlan)
			return 0;
		type = vlan->type;
	}
	return type;
}

/* Reads the outer header. A packet is sent to a SID when it carries an IP packet
 * or has an SRH; else it is itself the packet to read the 5-tuple of. */
INLINE enum verdict read_encapsulation(struct cursor *cursor, struct frame *frame)
{
	struct cursor inner = *cursor;
	struct ipv6 *ip = take(&inner, sizeof(*ip));
	struct chain chain = {};
	enum verdict verdict;

	frame->proto = PROTO_IPV6;
	if (!ip)
		return VERDICT_SHORT;
	if (ip->version >> 4 != 6)
		return VERDICT_OPAQUE;
	chain.sid = ip->dst;
	chain.next = ip->next;
	verdict = skip_extensions(&inner, &chain);
	frame->tunnel = chain.has_srh || chain.next == PROTO_IPV6 || chain.next == PROTO_IPV4;
	if (!frame->tunnel)
		return VERDICT_FLOW;
	frame->sid = chain.sid;
	frame->proto = chain.next;
	*cursor = inner;
	if (verdict == VERDICT_FLOW &&
	    (chain.fragment || (chain.next != PROTO_IPV6 && chain.next != PROTO_IPV4)))
		return VERDICT_OPAQUE;
	return verdict;
}

/* Finds the IP packet whose 5-tuple counts: frame->header is where it begins,
 * frame->proto is its version. */
GLOBAL enum verdict read_outer(struct __sk_buff *skb, struct frame *frame)
{
	void *start = (void *)(unsigned long)skb->data;
	struct cursor cursor = { start, (void *)(unsigned long)skb->data_end };
	enum verdict verdict = VERDICT_FLOW;
	__u16 type = read_link(skb, &cursor);

	if (!frame)
		return VERDICT_OPAQUE;
	frame->tunnel = 0;
	if (type == htons(ETH_P_IPV6))
		verdict = read_encapsulation(&cursor, frame);
	else if (type == htons(ETH_P_IP))
		frame->proto = PROTO_IPV4;
	else
		verdict = type ? VERDICT_OPAQUE : VERDICT_SHORT;
	frame->header = cursor.pos - start;
	return verdict;
}

INLINE enum verdict parse(struct __sk_buff *skb, struct frame *frame)
{
	enum verdict verdict = read_outer(skb, frame);

	/* Packets that are not counted need not be read any further. */
	if (verdict != VERDICT_FLOW || !(frame->tunnel || count_plain))
		return verdict;
	if (frame->header >= MAX_OUTER)
		return VERDICT_OPAQUE;
	return read_flow(skb, frame);
}
