/* When slow start ends, when a path is probed, and how a loss is answered.
 *
 * Here and in trust.h and path.h is the rule that QUIC's floor follows, too, as `Rule` and `Path` in
 * `crates/congestion`. Its test `lockstep` drives both with the same events; so nothing here knows of
 * the kernel but for what is acknowledged. */
#pragma once

enum {
	/* Rounds without a quarter more that end slow start. */
	STARTUP_ROUNDS = 3,
	PROBE_ROUNDS = 4,
	/* Where probes meet a queue. */
	MAX_PROBE_ROUNDS = 64,
};

/* What the end of a round does to the window. */
enum step {
	STEP_NONE,
	/* Losses answer to our rate: as at any congestion. */
	STEP_DOUBT,
	/* Slow start has found the path's rate. */
	STEP_PLATEAU,
	/* A probe is over: up to what the path has shown, unless there is a queue. */
	STEP_RAISE,
};

enum answer {
	/* Without a queue. */
	ANSWER_FORGIVEN,
	/* With that of a probe, which ends. */
	ANSWER_PROBE,
	ANSWER_CONGESTION,
};

/* Whether slow start ends here. Where the window is not what `limits` the connection, a rate that does
 * not grow says nothing. */
static __always_inline bool stalls(struct flow *flow, bool searching, bool limits)
{
	if (!searching)
		flow->startup = false;
	if (!flow->startup || !flow->last_rate)
		return false;
	if (flow->last_rate >= flow->startup_rate + flow->startup_rate / 4) {
		flow->startup_rate = flow->last_rate;
		flow->stalled = 0;
		return false;
	}
	if (!limits)
		return false;
	flow->stalled += flow->stalled < STARTUP_ROUNDS;
	if (flow->stalled < STARTUP_ROUNDS || !flow->forgiven)
		return false;
	flow->startup = false;
	return true;
}

/* Begins and ends probes. What was sent in the probe's round is acknowledged in the next, and its
 * queue drained in the one after that. Returns whether a probe is over. */
static __always_inline bool step_probe(struct flow *flow)
{
	bool over = flow->probe_rate && flow->round > flow->probe_round + 2;
	bool forgiving;

	if (flow->round > flow->probe_round)
		flow->probe = false;
	if (over) {
		/* More was there: look for yet more at once. */
		if (path_rate(flow) > flow->probe_rate + flow->probe_rate / 10) {
			flow->probe_interval = PROBE_ROUNDS;
			flow->probe_round -= PROBE_ROUNDS - 2;
		}
		flow->probe_rate = 0;
	}
	forgiving = flow->forgiven && flow->round - (flow->forgiven - 1) <= flow->probe_interval;
	if (forgiving && !flow->startup && trusted(flow) &&
	    flow->round >= flow->probe_round + flow->probe_interval) {
		flow->probe = true;
		flow->probe_met = false;
		flow->probe_round = flow->round;
		flow->probe_rate = path_rate(flow);
		weigh_probe(flow);
	}
	return over;
}

static __always_inline enum step step_of_round(struct flow *flow, bool searching, bool limits)
{
	bool stalled, over;

	if (judge(flow))
		return STEP_DOUBT;
	stalled = stalls(flow, searching, limits);
	over = step_probe(flow);
	if (stalled)
		return STEP_PLATEAU;
	return over ? STEP_RAISE : STEP_NONE;
}

/* Of `lost` packets, which were `met` by a queue or not. */
static __always_inline enum answer answer_losses(struct flow *flow, __u32 lost, bool met)
{
	bool honest = trusted(flow);

	count_lost(flow, lost, met);
	if (honest && !met) {
		flow->forgiven = flow->round + 1;
		return ANSWER_FORGIVEN;
	}
	if (honest && drains_probe(flow)) {
		flow->probe = false;
		if (!flow->probe_met)
			flow->probe_interval = min64(flow->probe_interval * 2, MAX_PROBE_ROUNDS);
		flow->probe_met = true;
		return ANSWER_PROBE;
	}
	give_up_probe(flow);
	return ANSWER_CONGESTION;
}
