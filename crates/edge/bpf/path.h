/* What a connection sees of its path: rounds, rates, round-trip times, queue. */
#pragma once

enum {
	/* Two of these are the rounds for which a rate counts. */
	RATE_ROUNDS = 5,
	/* Microseconds; two of these are the time for which a round's least RTT counts. */
	RTT_LIFE = 15 * 1000 * 1000,
	/* A queue is longer than this part of the path's RTT, and than a larger one within these two,
	 * in microseconds. */
	QUEUE_PART = 20,
	SHORT_QUEUE_PART = 5,
	SHORT_QUEUE_LEAST = 1000,
	SHORT_QUEUE_MOST = 2000,
	/* RTTs that show together whether slow start has filled the path (RFC 9406 §4.3, N_RTT_SAMPLE), and
	 * what their least has to rise by: an eighth, within limits in microseconds. */
	RTT_BLOCK = 8,
	RISE_PART = 8,
	RISE_LEAST = 4000,
	RISE_MOST = 16000,
	/* The same, for an RTT that is still that of an empty path: a tenth, and at most this. */
	EMPTY_PART = 10,
	EMPTY_MOST = 4000,
	/* Microseconds, and part of the RTT, for which a window holds more than fills the path. */
	SPARE_LEAST = 1000,
	SPARE_PART = 40,
};

static __always_inline void take_least(struct least *least, __u32 rtt)
{
	if (!least->first || rtt < least->first) {
		least->second = least->first;
		least->first = rtt;
	} else if (!least->second || rtt < least->second) {
		least->second = rtt;
	}
}

/* The path's RTT without queues, in microseconds; 0 if unknown. From the fourth round on the
 * second least of the rounds' least, since one that is too small would make every other look like
 * a queue. */
static __always_inline __u32 min_rtt(struct flow *flow)
{
	struct least all = flow->rtts[0];

	if (flow->rtts[1].first)
		take_least(&all, flow->rtts[1].first);
	if (flow->rtts[1].second)
		take_least(&all, flow->rtts[1].second);
	if (!all.first)
		return flow->round_rtt;
	return flow->rtt_rounds > 3 && all.second ? all.second : all.first;
}

/* The largest delivery rate of the last rounds, in 2^-24 packets a microsecond. */
static __always_inline __u64 path_rate(struct flow *flow)
{
	return max64(max64(flow->rates[0], flow->rates[1]), flow->round_rate);
}

/* Whether the rate has grown by a tenth within two rounds: the path has more than it has shown. */
static __always_inline bool growing(struct flow *flow)
{
	return path_rate(flow) > flow->rate_then[1] + flow->rate_then[1] / 10;
}

/* What counts as a standing queue, in microseconds. */
static __always_inline __u32 queue_least(struct flow *flow)
{
	__u32 rtt = min_rtt(flow);
	__u64 least = max64(rtt / SHORT_QUEUE_PART, SHORT_QUEUE_LEAST);

	return max64(rtt / QUEUE_PART, min64(least, SHORT_QUEUE_MOST));
}

/* Packets that fill the path, what is lost on it included, and a few to spare, as `Path::bdp` of
 * QUIC's explains. */
static __always_inline __u64 path_bdp(struct flow *flow)
{
	__u64 all = sum(&flow->calm);
	/* In 1024ths; more than a tenth is not made up for. */
	__u64 loss = all ? min64(flow->calm.lost * 1024 / all, 102) : 0;
	__u32 rtt = min_rtt(flow);
	__u64 time = rtt + max64(rtt / SPARE_PART, SPARE_LEAST);
	__u64 bdp = (path_rate(flow) * time) >> 24;

	return bdp * 1024 / (1024 - loss);
}

/* Whether the last packets all met a standing queue: one alone is late for the packets that the kernel
 * sent with it. Yes if nothing is known. */
static __always_inline bool queued(struct flow *flow)
{
	__u32 limit = min_rtt(flow) + queue_least(flow);

	for (int i = 0; i < 4; i++) {
		if (flow->recent[i] && flow->recent[i] < limit)
			return false;
	}
	return true;
}

static __always_inline void take_recent(struct flow *flow, __u32 rtt)
{
	flow->recent[flow->recent_next++ & 3] = rtt;
	if (!flow->tail_rtts || rtt < flow->tail_rtt)
		flow->tail_rtt = rtt;
	if (++flow->tail_rtts == RTT_BLOCK) {
		flow->block_rtt = flow->tail_rtt;
		flow->tail_rtts = 0;
	}
}

/* Whether RTTs have risen, by the least of the last 8 to 15: the first of a long round met no queue,
 * and would show it a round later. */
static __always_inline bool risen(struct flow *flow)
{
	__u32 rtt = min_rtt(flow);
	__u32 rise = min64(max64(rtt / RISE_PART, RISE_LEAST), RISE_MOST);
	bool tail = !flow->tail_rtts || flow->tail_rtt >= rtt + rise;

	return flow->block_rtt >= rtt + rise && tail;
}

/* Whether the least of the last RTTs, 15 at most, is that of an empty path. */
static __always_inline bool empty(struct flow *flow)
{
	__u32 rtt = min_rtt(flow);
	__u32 limit = rtt + min64(rtt / EMPTY_PART, EMPTY_MOST);

	return (flow->tail_rtts && flow->tail_rtt <= limit) ||
	       (flow->block_rtt && flow->block_rtt <= limit);
}

static __always_inline void begin_round(struct flow *flow, struct tcp_sock *tp)
{
	__u64 now = tp->tcp_mstamp;

	flow->round++;
	flow->round_end = tp->delivered;
	flow->last_rate = flow->round_rate;
	if (flow->round % RATE_ROUNDS == 0) {
		flow->rates[1] = flow->rates[0];
		flow->rates[0] = 0;
	}
	flow->rates[0] = max64(flow->rates[0], flow->round_rate);
	flow->round_rate = 0;
	flow->rate_then[1] = flow->rate_then[0];
	flow->rate_then[0] = path_rate(flow);
	if (!flow->rtts_since)
		flow->rtts_since = now;
	if (now - flow->rtts_since > RTT_LIFE && flow->rtts[0].second) {
		flow->rtts[1] = flow->rtts[0];
		flow->rtts[0] = (struct least){};
		flow->rtts_since = now;
	}
	if (flow->round_rtt) {
		take_least(&flow->rtts[0], flow->round_rtt);
		flow->rtt_rounds++;
	}
	flow->round_rtt = 0;
}

/* Takes an acknowledgement in. Returns whether it ends a round. */
static __always_inline bool sample_path(struct flow *flow, struct tcp_sock *tp,
					const struct rate_sample *rs)
{
	long rtt = rs->rtt_us, interval = rs->interval_us;
	int delivered = rs->delivered;
	bool ends = delivered > 0 && (__s32)(rs->prior_delivered - flow->round_end) >= 0;
	__u64 rate;

	/* RTTs of what was sent twice come from timestamps, cut to milliseconds. */
	if (rtt > 0 && !rs->is_retrans) {
		take_recent(flow, rtt);
		if (!flow->round_rtt || rtt < flow->round_rtt)
			flow->round_rtt = rtt;
	}
	if (ends)
		begin_round(flow, tp);
	if (delivered > 0 && interval > 0) {
		rate = ((__u64)delivered << 24) / (__u64)interval;
		if (!rs->is_app_limited || rate > path_rate(flow))
			flow->round_rate = max64(flow->round_rate, rate);
	}
	return ends;
}
