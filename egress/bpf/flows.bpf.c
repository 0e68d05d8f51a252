//go:build ignore
/* SRv6 FlowStats: counts what leaves an interface by SID and inner 5-tuple.
 *
 * A flow is one cache line in an open-addressed table that user space maps into
 * its memory: a packet costs one cache miss where a hash map costs three. Packets
 * wait in batches on their CPU, so that the misses of a batch overlap (batch.h). Two CPUs that
 * insert the same flow at once may, rarely, give it two places; user space
 * reports by key, so sums stay exact. Packets are never changed in content,
 * dropped or redirected. */
#include "flows.h"
#include "fastpath.h"
#include "batch.h"

/* Packets and bytes on the wire. A GSO super-packet repeats all headers in each
 * segment. gso_segs is 0 where the packet came from a guest or a packet socket;
 * the kernel then divides as is done here. 65,535 segments of the longest headers that are
 * read (12.5 kB) are less than 2^32 bytes. */
INLINE void measure(struct __sk_buff *skb, __u32 header, struct pending *to)
{
	__u32 len = skb->len, size = skb->gso_size;
	__u32 segments = 1;

	if (size) {
		segments = skb->gso_segs;
		if (!segments && len > header)
			segments = (len - header + size - 1) / size;
		if (!segments)
			segments = 1;
		len += (segments - 1) * header;
	}
	if (skb->vlan_present) /* the tag is not yet in the frame */
		len += segments * 4;
	to->packets = segments;
	to->bytes = len;
}

/* The slow path: any frame. */
GLOBAL int count_any(struct __sk_buff *skb)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct batch *batch = bpf_map_lookup_elem(&batches, &cpu);
	struct frame frame = {};
	enum verdict verdict = parse(skb, &frame);
	struct pending *to;

	/* Headers mostly lie in the linear part; where they do not, the kernel is
	 * asked once to bring them there. */
	if (verdict == VERDICT_SHORT && skb->data_end - skb->data < skb->len &&
	    !bpf_skb_pull_data(skb, skb->len < MAX_HEADERS ? skb->len : MAX_HEADERS))
		verdict = parse(skb, &frame);
	if (!batch || (!frame.tunnel && !count_plain))
		return 0;
	to = next_entry(batch);
	to->key = frame.flow;
	to->sid = frame.sid;
	measure(skb, frame.header, to);
	if (verdict == VERDICT_FLOW)
		keep(batch, cpu);
	else
		add_opaque(frame.tunnel ? find_sid(&frame.sid) : SID_NONE, to->packets, to->bytes);
	return 0;
}

SEC("tc")
int count_flows(struct __sk_buff *skb)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct batch *batch = bpf_map_lookup_elem(&batches, &cpu);
	struct frame frame;

	if (!batch)
		return TC_ACT_UNSPEC;
	WRITE_ONCE(batch->busy, 1);
	barrier();
	if (!read_fast(skb, &frame, next_entry(batch))) {
		count_any(skb);
	} else if (frame.tunnel || count_plain) {
		measure(skb, frame.header, next_entry(batch));
		keep(batch, cpu);
	}
	barrier();
	WRITE_ONCE(batch->busy, 0);
	return TC_ACT_UNSPEC;
}

/* Adds the packets that wait on the CPU whose number is the argument. User space runs it
 * before it reads the table: in an interrupt of that CPU, or on any after the last packet.
 * Returns 1 if it has interrupted count_flows, and has to be run again. */
SEC("raw_tp")
int drain(struct bpf_raw_tracepoint_args *context)
{
	__u32 cpu = context->args[0];
	struct batch *batch = bpf_map_lookup_elem(&batches, &cpu);

	if (!batch)
		return 0;
	if (READ_ONCE(batch->busy))
		return 1;
	flush(batch, cpu);
	return 0;
}

const char _license[] SEC("license") = "Dual MIT/GPL";
