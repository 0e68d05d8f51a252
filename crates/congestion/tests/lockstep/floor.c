/* TCP's floor as a program: reads events, follows the rule of crates/edge/bpf, writes what it has after each.
 * The headers are those that the kernel runs; here is what they need of it. */
#include <stdbool.h>
#include <stdio.h>
#include <linux/bpf.h>
#include <linux/types.h>

#undef __always_inline
#define __always_inline inline __attribute__((always_inline))
#define __ksym
#define __weak __attribute__((weak))
#define SEC(name)
#define __uint(name, value) int(*name)[value]
#define __type(name, value) __typeof__(value) *name

/* No socket is looked up here. */
static void *bpf_sk_storage_get(void *map, void *sk, void *value, __u64 flags)
{
	(void)map, (void)sk, (void)value, (void)flags;
	return 0;
}

static void *bpf_map_lookup_elem(void *map, const void *key)
{
	(void)map, (void)key;
	return 0;
}

#include "kernel.h"
#include "setting.h"
#include "flow.h"
#include "trust.h"
#include "path.h"
#include "rule.h"

/* As in lockstep/native.rs, in its order. */
enum { BEGIN, SAMPLE, LOST, DOUBT, CUT };

struct event {
	__u64 kind, now, rtt, delivered, interval, prior, total, limited, acked, searching, lost, met;
};

struct state {
	__u64 decision, round, doubt_left, probing, of_probe, drains, interval, startup;
	__s64 evidence;
	__u64 calm_acked, calm_lost, min_rtt, queue_least, rate, last_rate, growing, bdp;
};

static __u64 sampled(struct flow *flow, const struct event *event)
{
	struct tcp_sock tp = { .tcp_mstamp = event->now, .delivered = event->total };
	struct rate_sample rs = {
		.prior_delivered = event->prior,
		.delivered = event->delivered,
		.interval_us = event->interval,
		.rtt_us = event->rtt,
		.is_app_limited = event->limited,
	};
	bool ended = sample_path(flow, &tp, &rs);

	count_acked(flow, event->acked);
	return ended ? step_of_round(flow, event->searching, true) : STEP_NONE;
}

static __u64 follow(struct flow *flow, const struct event *event)
{
	switch (event->kind) {
	case BEGIN:
		*flow = (struct flow){ .startup = true, .probe_interval = PROBE_ROUNDS };
		break;
	case SAMPLE:
		return sampled(flow, event);
	case LOST:
		return answer_losses(flow, event->lost, event->met);
	case DOUBT:
		begin_doubt(flow);
		break;
	case CUT:
		give_up_probe(flow);
		break;
	}
	return 0;
}

int main(void)
{
	struct flow flow;
	struct event event;

	while (fread(&event, sizeof(event), 1, stdin) == 1) {
		struct state state = { .decision = follow(&flow, &event) };

		state.round = flow.round;
		state.doubt_left = trusted(&flow) ? 0 : flow.trust_from - flow.round;
		state.probing = flow.probe;
		state.of_probe = of_probe(&flow);
		state.drains = drains_probe(&flow);
		state.interval = flow.probe_interval;
		state.startup = flow.startup;
		state.evidence = flow.evidence;
		state.calm_acked = flow.calm.acked;
		state.calm_lost = flow.calm.lost;
		state.min_rtt = min_rtt(&flow);
		state.queue_least = queue_least(&flow);
		state.rate = path_rate(&flow);
		state.last_rate = flow.last_rate;
		state.growing = growing(&flow);
		state.bdp = path_bdp(&flow);
		if (fwrite(&state, sizeof(state), 1, stdout) != 1)
			return 1;
	}
	return 0;
}
