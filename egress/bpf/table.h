/* The tables: finding a flow or a SID, or giving it a place. */
#pragma once
#include "flows.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1 << 18); /* a power of two; user space may change it */
	__type(key, __u32);
	__type(value, struct flow);
} flows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, (1 << 18) / GROUP_PLACES / MARKS); /* as the flow table's */
	__type(key, __u32);
	__type(value, struct marks);
} marks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* user space sets the number of possible CPUs */
	__type(key, __u32);
	__type(value, struct batch);
} batches SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SID_SLOTS);
	__type(key, __u32);
	__type(value, struct sid);
} sids SEC(".maps");

/* "Multilinear-HM" of Lemire and Kaser, "Strongly universal string hashing is
 * fast": with secret random keys nobody outside can choose flows that collide.
 * Its products do not depend on each other. As it maps steps to steps (ports
 * counted up, say), which linear probing punishes, its result is mixed once. */
INLINE __u32 hash(const __u64 *word, int words)
{
	__u64 sum = hash_keys[0];

#pragma unroll
	for (int i = 0; i < words; i++)
		sum += (hash_keys[2 * i + 1] + (__u32)word[i]) *
		       (hash_keys[2 * i + 2] + (word[i] >> 32));
	sum ^= sum >> 32;
	return sum * 0x9e3779b97f4a7c15ull >> 32;
}

/* Another CPU is writing the key, a matter of nanoseconds, unless its virtual
 * CPU was just taken away: then the caller goes on to the next place. */
INLINE __u32 await(__u32 *state)
{
	__u32 seen = STATE_CLAIMED;

#pragma clang loop unroll(disable)
	for (int i = 0; i < 64 && seen == STATE_CLAIMED; i++)
		seen = READ_ONCE(*state);
	return seen;
}

/* True when the place was free and is now the caller's, who writes the key and
 * publishes it. Otherwise *seen is the state as another CPU has left it. */
INLINE int claim(__u32 *state, __u32 *seen)
{
	if (*seen == STATE_FREE)
		*seen = __sync_val_compare_and_swap(state, STATE_FREE, STATE_CLAIMED);
	if (*seen == STATE_FREE)
		return 1;
	if (*seen == STATE_CLAIMED)
		*seen = await(state);
	return 0;
}

/* An exchange is a full barrier: the key is visible before the state. */
INLINE void publish(__u32 *state)
{
	__sync_lock_test_and_set(state, STATE_LIVE);
}

INLINE int same_flow(const struct key *a, const struct key *b)
{
	return !((a->word[0] ^ b->word[0]) | (a->word[1] ^ b->word[1]) |
		 (a->word[2] ^ b->word[2]) | (a->word[3] ^ b->word[3]) |
		 (a->word[4] ^ b->word[4]));
}

/* Returns the flow's place, and its index; 0 when there is none within the window. */
INLINE struct flow *find_flow(const struct key *key, __u32 home, __u32 *at)
{
#pragma clang loop unroll(disable)
	for (int i = 0; i < FLOW_WINDOW; i++) {
		__u32 index = (home + i) & flow_mask;
		struct flow *flow = bpf_map_lookup_elem(&flows, &index);
		__u32 seen;

		if (!flow)
			return 0;
		*at = index;
		seen = READ_ONCE(flow->state);
		if (seen != STATE_LIVE && claim(&flow->state, &seen)) {
			flow->key = *key;
			publish(&flow->state);
			return flow;
		}
		if (seen == STATE_LIVE && same_flow(&flow->key, key))
			return flow;
	}
	return 0;
}

INLINE void add_overflow(__u32 index, __u64 packets, __u64 bytes)
{
	struct sid *sid = bpf_map_lookup_elem(&sids, &index);

	if (!sid)
		return;
	__sync_fetch_and_add(&sid->overflow_packets, packets);
	__sync_fetch_and_add(&sid->overflow_bytes, bytes);
}

INLINE void grow(struct flow *flow, __u32 index, __u64 packets, __u64 bytes)
{
	__u32 group = index / GROUP_PLACES, line = group / MARKS;
	struct marks *mark;

	__sync_fetch_and_add(&flow->packets, packets);
	__sync_fetch_and_add(&flow->bytes, bytes);
	mark = bpf_map_lookup_elem(&marks, &line);
	if (mark && !READ_ONCE(mark->group[group & (MARKS - 1)]))
		WRITE_ONCE(mark->group[group & (MARKS - 1)], 1);
}

/* Adds to the flow or, when a table has no room for it or for its SID, to its SID. */
GLOBAL int add_flow(const struct key *key, __u32 home, __u64 packets, __u64 bytes)
{
	struct flow *flow = 0;
	__u32 index, sid;

	if (!key)
		return 0;
	sid = (__u16)(key->word[4] >> KEY_INDEX_SHIFT);
	if (sid != SID_UNKNOWN)
		flow = find_flow(key, home, &index);
	if (flow)
		grow(flow, index, packets, bytes);
	else
		add_overflow(sid, packets, bytes);
	return 0;
}

INLINE int same_address(const struct address *a, const struct address *b)
{
	return a->word[0] == b->word[0] && a->word[1] == b->word[1];
}

/* Returns the SID's index; SID_UNKNOWN when there is none within the window.
 * There are few SIDs and they stay: their lines are always in the cache. */
GLOBAL __u32 find_sid(const struct address *address)
{
	__u32 start;

	if (!address)
		return SID_UNKNOWN;
	start = hash(address->word, 2);
#pragma clang loop unroll(disable)
	for (int i = 0; i < SID_WINDOW; i++) {
		__u32 index = (start + i) & (SID_SLOTS - 1);
		struct sid *sid = bpf_map_lookup_elem(&sids, &index);
		__u32 seen;

		if (!sid)
			return SID_UNKNOWN;
		seen = READ_ONCE(sid->state);
		if (seen != STATE_LIVE && claim(&sid->state, &seen)) {
			sid->address = *address;
			publish(&sid->state);
			return index;
		}
		if (seen == STATE_LIVE && index > SID_UNKNOWN &&
		    same_address(&sid->address, address))
			return index;
	}
	return SID_UNKNOWN;
}

INLINE void add_opaque(__u32 index, __u64 packets, __u64 bytes)
{
	struct sid *sid = bpf_map_lookup_elem(&sids, &index);

	if (!sid)
		return;
	__sync_fetch_and_add(&sid->opaque_packets, packets);
	__sync_fetch_and_add(&sid->opaque_bytes, bytes);
}
