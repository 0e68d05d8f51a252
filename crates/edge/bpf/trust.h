/* Whether losses answer to our own rate: a policer, or a queue too short to be seen in round-trip
 * times, loses more when more is sent; a lossy link does not.
 *
 * Each packet of a probe is an observation of a sequential test (Page's CUSUM): is the loss that of
 * other times, or MORE besides? So chance seldom ends trust however often it is asked, and a
 * policer's losses end it within a round. Evidence is in bits, in 2^-16. */
#pragma once

enum {
	PARTS = 1024,
	/* Packets without which nothing is judged. */
	JUDGED_PACKETS = 40 * PARTS,
	/* Shares of packets are in 2^-30: ONE is all of them. */
	ONE = 1 << 30,
	/* What probes lose besides where losses answer, a tenth: half of what a probe sends besides. */
	MORE = ONE / 10,
	/* e^10 to one, which chance exceeds about once in as many packets: 10 / ln 2 bits. */
	ENOUGH = 945483,
	/* Packets that count as seen before the first, and how many of them as lost. */
	PRIOR = 50 * PARTS,
	PRIOR_LOST = 1 * PARTS,
	DOUBT_ROUNDS = 32,
	MAX_DOUBT_ROUNDS = 256,
};

static __always_inline __u64 sum(struct count *count)
{
	return count->acked + count->lost;
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

/* Logarithm to base 2 of 1 to 2^32 - 1, in 2^-16; at most 2^-16 too small. Squaring a mantissa
 * between 1 and 2 doubles its logarithm, and carries one binary digit of it beyond 2. */
static __always_inline __s32 log2_of(__u32 number)
{
	__u64 mantissa = number;
	__s32 log = 31 << 16;

	for (int i = 0; i < 31 && !(mantissa >> 31); i++) {
		mantissa <<= 1;
		log -= 1 << 16;
	}
	for (__s32 digit = 1 << 15; digit; digit >>= 1) {
		mantissa = (mantissa * mantissa) >> 31;
		if (mantissa >> 32) {
			mantissa >>= 1;
			log += digit;
		}
	}
	return log;
}

/* What each packet of the probe that begins now will say, by the loss of other times. */
static __always_inline void weigh_probe(struct flow *flow)
{
	struct count *calm = &flow->calm;
	__u64 lost, loss;

	calm->acked -= calm->acked / 10;
	calm->lost -= calm->lost / 10;
	lost = calm->lost + PRIOR_LOST;
	loss = (lost << 30) / (sum(calm) + PRIOR);
	loss = min64(max64(loss, 1), ONE - 2 * MORE);
	flow->if_acked = log2_of(ONE - loss - MORE) - log2_of(ONE - loss);
	flow->if_lost = log2_of(loss + MORE) - log2_of(loss);
}

static __always_inline void weigh(struct flow *flow, __s64 evidence)
{
	evidence += flow->evidence;
	flow->evidence = evidence > 0 ? evidence : 0;
}

static __always_inline void count_acked(struct flow *flow, __u32 packets)
{
	flow->whole.acked += (__u64)packets * PARTS;
	if (of_probe(flow))
		weigh(flow, (__s64)packets * flow->if_acked);
	else
		flow->calm.acked += (__u64)packets * PARTS;
}

/* Losses that `met` a queue show the queue, which CUBIC answers. All losses count for the share of
 * packets that are lost at other times than probes. */
static __always_inline void count_lost(struct flow *flow, __u32 packets, bool met)
{
	if (!met)
		flow->whole.lost += (__u64)packets * PARTS;
	if (!of_probe(flow))
		flow->calm.lost += (__u64)packets * PARTS;
	else if (!met)
		weigh(flow, (__s64)packets * flow->if_lost);
}

/* The window was cut, or trust lost: the probe shows nothing more. */
static __always_inline void give_up_probe(struct flow *flow)
{
	/* Packets of its round are not all of a probe then. */
	if (flow->probe)
		flow->if_acked = flow->if_lost = 0;
	flow->probe = false;
	flow->probe_rate = 0;
}

static __always_inline void begin_doubt(struct flow *flow)
{
	flow->doubt = min64(max64(flow->doubt * 2, DOUBT_ROUNDS), MAX_DOUBT_ROUNDS);
	flow->trust_from = flow->round + flow->doubt;
	flow->calm = flow->whole = (struct count){};
	give_up_probe(flow);
	flow->evidence = flow->if_acked = flow->if_lost = 0;
}

/* Judges at the end of a round. Returns whether trust was lost. */
static __always_inline bool judge(struct flow *flow)
{
	bool flooded = false;

	if (sum(&flow->whole) >= JUDGED_PACKETS) {
		flooded = flow->whole.lost * 5 > sum(&flow->whole);
		flow->whole = (struct count){};
	}
	if (!flooded && flow->evidence < ENOUGH)
		return false;
	begin_doubt(flow);
	return true;
}
