//go:build ignore
/* SRv6 FlowStats: counts what leaves an interface by SID and inner 5-tuple.
 *
 * A flow is one cache line in an open-addressed table that user space maps into
 * its memory: a packet costs one cache miss where a hash map costs three. Packets
 * wait in batches, so that the misses of a batch overlap (batch.h). Two CPUs that
 * insert the same flow at once may, rarely, give it two places; user space
 * reports by key, so sums stay exact. Packets are never changed in content,
 * dropped or redirected. */
#include "flows.h"
#include "fastpath.h"
#include "batch.h"

/* Packets and bytes on the wire. A GSO super-packet repeats all headers in each
 * segment. gso_segs is 0 where the packet came from a guest or a packet socket;
 * the kernel then divides as is done here. */
INLINE void measure(struct __sk_buff *skb, struct frame *frame)
{
	__u32 len = skb->len, header = frame->header, size = skb->gso_size;
	__u32 segments = 1;

	if (size) {
		segments = skb->gso_segs;
		if (!segments && len > header)
			segments = (len - header + size - 1) / size;
		if (!segments)
			segments = 1;
	}
	frame->packets = segments;
	frame->bytes = len + (__u64)(segments - 1) * header;
	if (skb->vlan_present) /* the tag is not yet in the frame */
		frame->bytes += segments * 4;
}

/* The slow path: any frame. */
GLOBAL int count_any(struct __sk_buff *skb)
{
	struct frame frame = {};
	enum verdict verdict = parse(skb, &frame);

	/* Headers mostly lie in the linear part; where they do not, the kernel is
	 * asked once to bring them there. */
	if (verdict == VERDICT_SHORT && skb->data_end - skb->data < skb->len &&
	    !bpf_skb_pull_data(skb, skb->len < MAX_HEADERS ? skb->len : MAX_HEADERS))
		verdict = parse(skb, &frame);
	if (!frame.tunnel && !count_plain)
		return TC_ACT_UNSPEC;
	measure(skb, &frame);
	if (frame.tunnel)
		frame.index = find_sid(&frame.sid);
	if (verdict == VERDICT_FLOW)
		count(&frame);
	else
		add_opaque(&frame);
	return TC_ACT_UNSPEC;
}

SEC("tc")
int count_flows(struct __sk_buff *skb)
{
	struct frame frame;

	if (!read_fast(skb, &frame))
		return count_any(skb);
	if (!frame.tunnel && !count_plain)
		return TC_ACT_UNSPEC;
	measure(skb, &frame);
	frame.index = 0;
	count(&frame);
	return TC_ACT_UNSPEC;
}

/* Run by user space before it reads the table. */
SEC("syscall")
int drain(void *unused)
{
	(void)unused;
#pragma clang loop unroll(disable)
	for (__u32 cpu = 0; cpu < MAX_CPUS && cpu < cpus; cpu++)
		drain_cpu(cpu);
	return 0;
}

const char _license[] SEC("license") = "Dual MIT/GPL";
