/* Packets wait, up to BATCH on each CPU, and are added to their flows together:
 * the cache misses of all of them then overlap, where one packet's miss would be
 * waited for in full. */
#pragma once
#include "table.h"

/* Touches the places of all packets of a batch. The loads do not depend on each
 * other, so that the CPU has all of them under way at once. */
INLINE void prefetch(const struct batch *batch)
{
#pragma unroll
	for (int i = 0; i < BATCH; i++) {
		__u32 index = batch->entry[i].home & flow_mask;
		struct flow *flow = bpf_map_lookup_elem(&flows, &index);

		if (flow)
			READ_ONCE(flow->state);
	}
}

/* Adds what the entry's packet grew its flow by; growth is no longer in it. */
INLINE void apply(const struct key *key, __u32 home, __u64 growth)
{
	add_flow(key, home, growth >> GROWTH_PACKETS_SHIFT & (MAX_PACKETS - 1),
		 growth & (MAX_BYTES - 1));
}

/* As apply, for a flow that is in the first place looked at, as most are. */
INLINE int at_home(const struct key *key, __u32 home, __u64 growth)
{
	__u32 index = home & flow_mask;
	struct flow *flow = bpf_map_lookup_elem(&flows, &index);

	if (!flow || READ_ONCE(flow->state) != STATE_LIVE || !same_flow(&flow->key, key))
		return 0;
	add_at(flow, index, growth >> GROWTH_PACKETS_SHIFT & (MAX_PACKETS - 1),
	       growth & (MAX_BYTES - 1));
	return 1;
}

/* Adds all packets that wait on this CPU. */
GLOBAL int flush(void)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct batch *batch = bpf_map_lookup_elem(&batches, &cpu);

	if (!batch)
		return 0;
	prefetch(batch);
#pragma clang loop unroll(disable)
	for (int i = 0; i < BATCH; i++) {
		struct pending *entry = &batch->entry[i];
		__u64 growth = __sync_lock_test_and_set(&entry->growth, 0);
		struct key key;

		if (!growth) /* drain was faster */
			continue;
		if (at_home(&entry->key, entry->home, growth))
			continue;
		key = entry->key;
		apply(&key, entry->home, growth);
	}
	return 0;
}

/* Adds all packets that wait on a CPU, while that CPU may be adding, too. The key
 * that was copied is the packet's if growth is still the same afterwards: its
 * sequence number comes back after 2^27 packets of that CPU only. */
GLOBAL int drain_cpu(__u32 cpu)
{
	struct batch *batch = bpf_map_lookup_elem(&batches, &cpu);

	if (!batch)
		return 0;
#pragma clang loop unroll(disable)
	for (int i = 0; i < BATCH; i++) {
		struct pending *entry = &batch->entry[i];
		__u64 growth = READ_ONCE(entry->growth);
		struct key key = entry->key;
		__u32 home = entry->home;

		if (growth && __sync_val_compare_and_swap(&entry->growth, growth, 0) == growth)
			apply(&key, home, growth);
	}
	return 0;
}

/* Adds the packet to the one before it, if that is of the same flow and still
 * waits: packets of a flow come in trains. */
INLINE int join(struct pending *before, const struct frame *frame)
{
	__u64 growth = READ_ONCE(before->growth);

	if (!growth || !same_flow(&before->key, &frame->flow))
		return 0;
	if ((growth & (MAX_BYTES - 1)) + frame->bytes >= MAX_BYTES ||
	    (growth >> GROWTH_PACKETS_SHIFT & (MAX_PACKETS - 1)) + frame->packets >= MAX_PACKETS)
		return 0;
	return __sync_val_compare_and_swap(&before->growth, growth,
					   growth + (frame->packets << GROWTH_PACKETS_SHIFT) +
						   frame->bytes) == growth;
}

/* Packets go to the same SID in trains, too. */
INLINE __u32 index_of(struct batch *batch, const struct frame *frame)
{
	if (!frame->tunnel)
		return SID_NONE;
	if (batch->index && same_address(&batch->sid, &frame->sid))
		return batch->index;
	batch->sid = frame->sid;
	batch->index = find_sid(&frame->sid);
	return batch->index;
}

/* Puts a packet into its CPU's batch. Nothing else writes there meanwhile: the
 * egress hook runs with bottom halves disabled. */
INLINE void enqueue(struct batch *batch, const struct frame *frame)
{
	struct pending *entry;
	__u64 next = batch->next;
	__u32 home;

	if (join(&batch->entry[(next - 1) & (BATCH - 1)], frame))
		return;
	home = hash(frame->flow.word, KEY_WORDS);
	if (frame->bytes >= MAX_BYTES || frame->packets >= MAX_PACKETS) {
		add_flow(&frame->flow, home, frame->packets, frame->bytes);
		return;
	}
	batch->next = next + 1;
	entry = &batch->entry[next & (BATCH - 1)];
	entry->key = frame->flow;
	entry->home = home;
	/* Never 0, as a packet has bytes. A full barrier: the key comes first. */
	__sync_lock_test_and_set(&entry->growth,
				 next / BATCH << GROWTH_SEQUENCE_SHIFT |
				 frame->packets << GROWTH_PACKETS_SHIFT | frame->bytes);
	if ((next & (BATCH - 1)) == BATCH - 1)
		flush();
}

/* Counts a packet by SID and flow. */
INLINE void count(struct frame *frame)
{
	__u32 cpu = bpf_get_smp_processor_id(), index;
	struct batch *batch = bpf_map_lookup_elem(&batches, &cpu);

	if (!batch)
		return;
	index = index_of(batch, frame);
	if (index == SID_UNKNOWN) {
		add_overflow(index, frame->packets, frame->bytes);
		return;
	}
	frame->flow.word[4] |= (__u64)index << 32;
	enqueue(batch, frame);
}
