/* Packets wait, up to BATCH on each CPU, and are added to their flows together. The cache
 * misses of all of them then overlap, where one packet's miss would be waited for in full.
 * The code that adds need not be cached for each packet either. */
#pragma once
#include "table.h"

/* The index of a SID. Packets go to the same SID in trains. */
INLINE __u32 index_of(struct batch *batch, const struct address *sid)
{
	if (batch->index && same_address(&batch->sid, sid))
		return batch->index;
	batch->sid = *sid;
	batch->index = find_sid(&batch->sid);
	return batch->index;
}

/* Completes the keys, and finds where to look for their flows. */
GLOBAL int find_homes(__u32 cpu)
{
	struct batch *batch = bpf_map_lookup_elem(&batches, &cpu);
	__u32 waiting;

	if (!batch)
		return 0;
	waiting = batch->waiting;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < BATCH && i < waiting; i++) {
		struct pending *entry = &batch->entry[i];
		__u64 *last = &entry->key.word[KEY_WORDS - 1];

		if ((__u16)(*last >> KEY_INDEX_SHIFT) == SID_UNKNOWN)
			*last += (__u64)(index_of(batch, &entry->sid) - SID_UNKNOWN) << KEY_INDEX_SHIFT;
		entry->home = hash(entry->key.word, KEY_WORDS);
	}
	return 0;
}

/* Touches the places of all packets of a batch. The loads do not depend on each other, and
 * little comes between them, so that the CPU has many under way at once. */
GLOBAL int prefetch(__u32 cpu)
{
	struct batch *batch = bpf_map_lookup_elem(&batches, &cpu);
	__u32 waiting;

	if (!batch)
		return 0;
	waiting = batch->waiting;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < BATCH && i < waiting; i++) {
		__u32 index = batch->entry[i].home & flow_mask;
		struct flow *flow = bpf_map_lookup_elem(&flows, &index);

		if (flow)
			READ_ONCE(flow->state);
	}
	return 0;
}

/* As add_flow, for a flow that is that many places after its home. */
INLINE int add_at(const struct pending *entry, __u32 step)
{
	__u32 index = (entry->home + step) & flow_mask;
	struct flow *flow = bpf_map_lookup_elem(&flows, &index);

	if (!flow || READ_ONCE(flow->state) != STATE_LIVE || !same_flow(&flow->key, &entry->key))
		return 0;
	grow(flow, index, entry->packets, entry->bytes);
	return 1;
}

GLOBAL int add_all(__u32 cpu)
{
	struct batch *batch = bpf_map_lookup_elem(&batches, &cpu);
	__u32 waiting;

	if (!batch)
		return 0;
	waiting = batch->waiting;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < BATCH && i < waiting; i++) {
		struct pending *entry = &batch->entry[i];

		/* Nearly all flows are in the first two places looked at. */
		if (!add_at(entry, 0) && !add_at(entry, 1))
			add_flow(&entry->key, entry->home, entry->packets, entry->bytes);
	}
	return 0;
}

/* Adds all packets that wait on a CPU. */
INLINE void flush(struct batch *batch, __u32 cpu)
{
	find_homes(cpu);
	prefetch(cpu);
	add_all(cpu);
	WRITE_ONCE(batch->waiting, 0);
}

/* The entry for the next packet. It waits only once keep has been called. */
INLINE struct pending *next_entry(struct batch *batch)
{
	return &batch->entry[batch->waiting & (BATCH - 1)];
}

/* Adds the next entry to the one before it, if that is of the same flow: packets of a flow
 * come in trains. A train has more bytes than packets, so these do not overflow. */
INLINE int join(struct batch *batch)
{
	struct pending *before = &batch->entry[(batch->waiting - 1) & (BATCH - 1)];
	struct pending *entry = next_entry(batch);
	__u32 bytes = before->bytes + entry->bytes;

	if (!batch->waiting || bytes < entry->bytes || !same_flow(&before->key, &entry->key) ||
	    !same_address(&before->sid, &entry->sid))
		return 0;
	before->packets += entry->packets;
	before->bytes = bytes;
	return 1;
}

/* Has the next entry wait. */
INLINE void keep(struct batch *batch, __u32 cpu)
{
	if (join(batch))
		return;
	WRITE_ONCE(batch->waiting, batch->waiting + 1);
	if (batch->waiting >= BATCH)
		flush(batch, cpu);
}
