/* Whether losses answer to our own rate: a policer, or a queue too short to be seen in round-trip
 * times, loses more when more is sent; a lossy link does not. */
#pragma once

enum {
	SIXTEENTHS = 16,
	/* One part in so many more losses do not matter. */
	LEAST_PART = 25,
	/* Packets without which nothing is judged. */
	JUDGED_PACKETS = 40 * SIXTEENTHS,
	DOUBT_ROUNDS = 32,
	MAX_DOUBT_ROUNDS = 256,
};

static __always_inline __u32 sum(struct count *count)
{
	return count->acked + count->lost;
}

static __always_inline void age(struct count *count)
{
	count->acked -= count->acked / 10;
	count->lost -= count->lost / 10;
}

static __always_inline bool trusted(struct flow *flow)
{
	return (__s32)(flow->round - flow->trust_from) >= 0;
}

/* Packets sent in a round are acknowledged, or found lost, in the next. */
static __always_inline bool of_probe(struct flow *flow)
{
	return flow->probe_round && flow->round == flow->probe_round + 1;
}

/* Whether a queue may still be that of the last probe. */
static __always_inline bool drains_probe(struct flow *flow)
{
	return flow->probe_round && flow->round <= flow->probe_round + 2;
}

static __always_inline void count_packets(struct flow *flow, __u32 acked, __u32 lost)
{
	struct count *count = of_probe(flow) ? &flow->probing : &flow->calm;

	count->acked += acked * SIXTEENTHS;
	count->lost += lost * SIXTEENTHS;
	flow->whole.acked += acked * SIXTEENTHS;
	flow->whole.lost += lost * SIXTEENTHS;
}

/* Whether probes lose more, by three standard deviations and 4 % at least: a quarter more than a link
 * carries loses up to a fifth. Shares are in 2^-20, so that squares fit. */
static __always_inline bool answers(struct flow *flow)
{
	__u64 probing = sum(&flow->probing), calm = sum(&flow->calm);
	__u64 lost = flow->probing.lost + flow->calm.lost;
	__u64 pooled, spread, variance, more, often, seldom;

	if (probing < JUDGED_PACKETS || calm < JUDGED_PACKETS)
		return false;
	often = ((__u64)flow->probing.lost << 20) / probing;
	seldom = ((__u64)flow->calm.lost << 20) / calm;
	if (often <= seldom + (1 << 20) / LEAST_PART)
		return false;
	more = often - seldom;
	pooled = (lost << 20) / (probing + calm);
	spread = (pooled * ((1 << 20) - pooled)) >> 20;
	variance = spread * SIXTEENTHS / probing + spread * SIXTEENTHS / calm;
	return more * more > 9 * (variance << 20);
}

static __always_inline void begin_doubt(struct flow *flow)
{
	flow->doubt = min64(max64(flow->doubt * 2, DOUBT_ROUNDS), MAX_DOUBT_ROUNDS);
	flow->trust_from = flow->round + flow->doubt;
	flow->calm = flow->probing = flow->whole = (struct count){};
}

/* Judges at the end of a round. Returns whether trust was lost. */
static __always_inline bool judge(struct flow *flow)
{
	bool flooded = false;

	if (sum(&flow->whole) >= JUDGED_PACKETS) {
		flooded = flow->whole.lost * 5ULL > sum(&flow->whole);
		flow->whole = (struct count){};
	}
	/* Once for each probe: each look is a chance to be wrong. */
	if (!flooded && !(flow->round == flow->probe_round + 2 && answers(flow)))
		return false;
	begin_doubt(flow);
	return true;
}
