/* hk_fair: CUBIC whose window does not fall below the path's bandwidth-delay product at losses that
 * come without a queue. The same rule as that of QUIC (`crates/congestion/src/floor.rs`, which
 * explains it), in whole numbers.
 *
 * ssthresh does nothing: losses are answered in cong_control, where a rate sample shows when the
 * acknowledged packet was sent, since TCP's recovery can last for many rounds. */
#pragma once

#include "trust.h"
#include "path.h"
#include "rule.h"

enum {
	/* Rounds after slow start in which losses are of its own overflow. */
	OVERFLOW_ROUNDS = 2,
	/* Part of the RTT for which the kernel waits for what came out of order (RFC 8985 §6.2). */
	REORDER_PART = 4,
	/* Of what slow start grows by, where RTTs have risen (RFC 9406 §4.3, CSS_GROWTH_DIVISOR). */
	GROWTH_DIVISOR = 4,
	/* Packets of growth for each acknowledged one of a rapid start: three windows a round. */
	RAPID_GROWTH = 2,
	/* Packets of a window from which on a rapid start only doubles: its overshoot costs more than it gains. */
	RAPID_MOST = 512,
	/* The part of the window that the kernel's CUBIC leaves at a loss (tcp_cubic.c, beta). */
	CUBIC_BETA = 717,
	CUBIC_SCALE = 1024,
};

static __always_inline bool in_slow_start(struct flow *flow, struct tcp_sock *tp)
{
	return flow->inner < tp->snd_ssthresh;
}

/* Whether the window is what keeps the connection from sending more. Where it is the receiver's
 * window or the application, rates and losses say nothing of ours. */
static __always_inline bool window_limited(struct flow *flow, struct tcp_sock *tp)
{
	/* In slow start the window doubles while it is being filled. */
	__u32 twice = in_slow_start(flow, tp) ? 2 * tp->max_packets_out : 0;

	return BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited) || flow->inner < twice;
}

static __always_inline __u32 longest_recent(struct flow *flow)
{
	__u32 rtt = 0;

	for (int i = 0; i < 4; i++)
		rtt = max64(rtt, flow->recent[i]);
	return rtt;
}

/* Packets that the path holds at this RTT, with its queue; unknown if 0. */
static __always_inline __u64 flight_at(struct flow *flow, __u32 rtt)
{
	return (path_rate(flow) * rtt) >> 24;
}

/* Whether slow start has filled the path. Before RTTs have risen the rate is that of half the window, which
 * was sent a round ago. Where there were losses without a queue slow start ends when the rate no
 * longer grows, which a window that grows slowly would feign. */
static __always_inline bool overflowing(struct flow *flow)
{
	return !flow->forgiven && risen(flow);
}

/* The window that a loss answers to. Slow start has sent a multiple of what fits into path and queue when
 * it learns of the overflow: 0.7 of that would overflow them again. */
static __always_inline __u64 overflowed(struct flow *flow)
{
	__u32 rtt = longest_recent(flow);
	__u64 flight = flight_at(flow, rtt);

	flow->overflow_rtt = 0;
	if (!flight || !overflowing(flow) || flow->round > flow->startup_round + OVERFLOW_ROUNDS)
		return flow->inner;
	flow->overflow_rtt = rtt;
	flow->overflow_round = flow->round;
	return min64(flow->inner, max64(flight, LEAST_WINDOW));
}

static __always_inline bool sent_since_cut(struct flow *flow, const struct rate_sample *rs)
{
	return (__s32)(rs->prior_delivered - flow->cut_at) >= 0;
}

/* Whether losses may be of packets sent since the last cut. The end of what an overflow has taken is
 * noticed when a packet after it is acknowledged, which was sent later than the cut. */
static __always_inline bool may_cut(struct flow *flow, struct tcp_sock *tp)
{
	return flow->past_cut && tp->tcp_mstamp >= flow->past_cut + min_rtt(flow) / REORDER_PART;
}

/* What CUBIC does at a loss; the window stays at `least` packets or more. */
static __always_inline void cut(struct sock *sk, struct flow *flow, __u64 least)
{
	struct tcp_sock *tp = tcp_sk(sk);
	__u64 window;

	flow->cut_at = tp->delivered;
	flow->past_cut = 0;
	flow->prior = flow->inner;
	show(tp, overflowed(flow));
	window = max64(cubictcp_recalc_ssthresh(sk), least);
	flow->inner = min64(window, max64(flow->inner, 2));
	tp->snd_ssthresh = flow->inner;
}

/* To a window that the path has shown. */
static __always_inline void settle(struct flow *flow, struct tcp_sock *tp, __u64 window)
{
	flow->inner = window;
	tp->snd_ssthresh = flow->inner;
}

static __always_inline void leave_startup(struct flow *flow)
{
	flow->startup = false;
	flow->rapid = false;
	flow->jumped = false;
	flow->known_bdp = 0;
}

/* Corrects the answer to an overflow of slow start. The rate of its round is that of a window that still
 * grew; what was sent then comes back a round later, at the path's own. */
static __always_inline void correct_overflow(struct flow *flow, struct tcp_sock *tp)
{
	__u64 window;

	if (!flow->overflow_rtt)
		return;
	window = min64(flight_at(flow, flow->overflow_rtt), flow->prior) * CUBIC_BETA / CUBIC_SCALE;
	if (window > flow->inner)
		settle(flow, tp, window);
	if (flow->round > flow->overflow_round + OVERFLOW_ROUNDS)
		flow->overflow_rtt = 0;
}

static __always_inline void end_round(struct sock *sk, struct flow *flow)
{
	struct tcp_sock *tp = tcp_sk(sk);
	__u64 bdp = path_bdp(flow);

	correct_overflow(flow, tp);
	switch (step_of_round(flow, in_slow_start(flow, tp), window_limited(flow, tp))) {
	case STEP_DOUBT:
		leave_startup(flow);
		cut(sk, flow, 0);
		break;
	case STEP_PLATEAU:
		leave_startup(flow);
		settle(flow, tp, max64(bdp, LEAST_WINDOW));
		break;
	case STEP_RAISE:
		if (bdp > flow->inner && !queued(flow))
			settle(flow, tp, bdp);
		break;
	case STEP_NONE:
		break;
	}
}

static __always_inline __u32 earned(struct flow *flow)
{
	return flow->inner - min64(flow->unearned, flow->inner);
}

/* Jumps to half of the known window once the first RTT agrees (RFC 9959), and otherwise goes
 * back to what CUBIC would have. */
static __always_inline void resume(struct flow *flow, struct tcp_sock *tp,
				   const struct rate_sample *rs)
{
	__u32 window, known = flow->known_min_rtt;
	long rtt = rs->rtt_us;

	if (flow->jumped && (__s32)(rs->prior_delivered - flow->jump_at) >= 0)
		flow->jumped = false;
	if (!flow->known_bdp || rtt <= 0)
		return;
	window = packets(tp, flow->known_bdp / 2);
	flow->known_bdp = 0;
	if (!flow->startup)
		return;
	if (rtt < known / 2 || rtt > 2L * known) {
		flow->inner = earned(flow);
		return;
	}
	flow->jumped = true;
	flow->rapid = false;
	flow->jump_at = tp->delivered;
	flow->jump_before = earned(flow);
	flow->inner = max64(flow->inner, window);
}

/* What was not earned and met a queue was too much. */
static __always_inline void retreat(struct flow *flow)
{
	if (flow->jumped)
		flow->inner = flow->jump_before;
	else if (flow->known_bdp)
		flow->inner = earned(flow);
}

static __always_inline void on_losses(struct sock *sk, struct flow *flow, __u32 lost)
{
	struct tcp_sock *tp = tcp_sk(sk);

	flow->rapid = false;
	switch (answer_losses(flow, lost, queued(flow))) {
	case ANSWER_FORGIVEN:
		if (!in_slow_start(flow, tp) && window_limited(flow, tp) && !growing(flow) &&
		    may_cut(flow, tp))
			cut(sk, flow, path_bdp(flow));
		break;
	case ANSWER_PROBE:
		break;
	case ANSWER_CONGESTION:
		retreat(flow);
		leave_startup(flow);
		if (may_cut(flow, tp))
			cut(sk, flow, 0);
		break;
	}
}

/* Packets that the window grows by for `acked` ones.
 *
 * A slow start triples its window in a round while no queue shows, until the first loss or mark
 * (draft-kazuho-ccwg-rapid-start). One whose packets meet a queue goes on by a quarter in a round (RFC 9406
 * §4.2): it would learn that the path is full a round too late, and lose what it sends too much. */
static __always_inline __u32 growth(struct flow *flow, struct tcp_sock *tp, __u32 acked)
{
	if (!flow->startup || !in_slow_start(flow, tp))
		return acked;
	flow->startup_round = flow->round;
	if (flow->rapid && flow->inner <= RAPID_MOST && empty(flow))
		return RAPID_GROWTH * acked;
	if (!overflowing(flow))
		return acked;
	flow->held_back += acked;
	acked = flow->held_back / GROWTH_DIVISOR;
	flow->held_back %= GROWTH_DIVISOR;
	return acked;
}

/* Window and pace for what the rule says. */
static __always_inline void show_fair(struct sock *sk, struct flow *flow)
{
	struct tcp_sock *tp = tcp_sk(sk);

	show(tp, flow->probe ? flow->inner + flow->inner / 4 : flow->inner);
	/* What every sender may send at once (RFC 6928 §2), and what each of its acknowledgements
	 * allows, would only come later for being paced: a tenth of a round trip is little. */
	if (flow->inner <= 2 * LEAST_WINDOW && in_slow_start(flow, tp))
		set_pace(sk, pace_of(tp, tp->snd_cwnd, 1000));
	else
		set_pace(sk, pace_of(tp, tp->snd_cwnd,
				     flow->inner < tp->snd_ssthresh / 2 ? 150 : 120));
}

static __always_inline bool probe_retransmits(struct tcp_sock *tp)
{
	return BPF_CORE_READ_BITFIELD(tp, tlp_retrans);
}

static __always_inline void note_retransmissions(struct flow *flow, struct tcp_sock *tp)
{
	flow->probes_tail = tp->tlp_high_seq && probe_retransmits(tp);
	flow->retransmitted = tp->total_retrans;
}

/* Whether the kernel reduces the window because a tail loss probe has repaired a loss (RFC 8985 §7.4.2),
 * and not for ECN or a queue of this machine. It says neither. But the probe was under way at the last
 * acknowledgement, or has been sent since: outside of recovery nothing else is sent again. */
static __always_inline bool repaired_tail(struct flow *flow, struct tcp_sock *tp)
{
	bool repaired = probe_retransmits(tp) &&
			(flow->probes_tail || tp->total_retrans != flow->retransmitted);

	note_retransmissions(flow, tp);
	return repaired;
}

SEC("struct_ops")
void BPF_PROG(fair_init, struct sock *sk)
{
	struct flow *flow;

	cubictcp_init(sk);
	flow = begin(sk);
	if (!flow)
		return;
	flow->startup = true;
	flow->rapid = is_fresh(tcp_sk(sk));
	flow->probe_interval = PROBE_ROUNDS;
	note_retransmissions(flow, tcp_sk(sk));
	show_fair(sk, flow);
}

SEC("struct_ops")
__u32 BPF_PROG(fair_ssthresh, struct sock *sk)
{
	return tcp_sk(sk)->snd_ssthresh;
}

/* Whether acknowledgements may be of what was under way when it began, and that was sent over another
 * path, or by another control. Those of both paths come out of order: the kernel takes for lost what is
 * still on its way, and what is lost says nothing of this path. */
static __always_inline bool former_under_way(struct flow *flow, struct tcp_sock *tp)
{
	if ((__s32)(tp->snd_una - flow->former_end) >= 0)
		flow->former = false;
	return flow->former;
}

/* Grows the window by what was sent since the last cut; what was sent before does not make up for it. */
static __always_inline void grow(struct sock *sk, struct flow *flow, __u32 ack,
				 const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (!rs->acked_sacked || !sent_since_cut(flow, rs))
		return;
	show(tp, flow->inner);
	cubictcp_cong_avoid(sk, ack, growth(flow, tp, rs->acked_sacked));
	flow->inner = tp->snd_cwnd;
}

SEC("struct_ops")
void BPF_PROG(fair_control, struct sock *sk, __u32 ack, int flag, const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct flow *flow = flow_of(sk);
	int lost = rs->losses;
	bool round_ended;

	if (!flow)
		return;
	lost += flow->tail_lost;
	flow->tail_lost = false;
	note_retransmissions(flow, tp);
	if (former_under_way(flow, tp)) {
		grow(sk, flow, ack, rs);
		show_fair(sk, flow);
		return;
	}
	round_ended = sample_path(flow, tp, rs);
	count_acked(flow, rs->acked_sacked);
	if (round_ended)
		end_round(sk, flow);
	resume(flow, tp, rs);
	if (!flow->past_cut && rs->acked_sacked && sent_since_cut(flow, rs))
		flow->past_cut = tp->tcp_mstamp;
	if (lost > 0)
		on_losses(sk, flow, lost);
	grow(sk, flow, ack, rs);
	show_fair(sk, flow);
}

/* A timeout: everything in flight is taken for lost, and slow start sends it again. Where there was
 * no queue it goes up to what the path carries, or goes on. So it does after a lost handshake, of which a
 * few packets alone were under way: seven tenths of the initial window would end slow start at once. A second one in a row ends the trust: then
 * slow start goes up to what CUBIC leaves of the window before the first, and not of the one packet
 * since. */
static __always_inline void time_out(struct sock *sk, struct flow *flow)
{
	struct tcp_sock *tp = tcp_sk(sk);
	__u64 left;

	give_up_probe(flow);
	flow->rapid = false;
	if (former_under_way(flow, tp)) {
		flow->inner = min64(flow->inner, LEAST_WINDOW);
		return;
	}
	if (tp->inet_conn.icsk_retransmits > 0) {
		begin_doubt(flow);
		leave_startup(flow);
		left = (__u64)flow->prior * CUBIC_BETA / CUBIC_SCALE;
		tp->snd_ssthresh = min64(tp->snd_ssthresh, max64(left, 2));
		flow->inner = 1;
		return;
	}
	if (is_fresh(tp) && !flow->recent_next) {
		flow->inner = 1;
		flow->unearned = 0;
		return;
	}
	if (!trusted(flow) || queued(flow)) {
		leave_startup(flow);
		cut(sk, flow, 0);
		flow->inner = 1;
		return;
	}
	flow->forgiven = flow->round + 1;
	if (in_slow_start(flow, tp))
		flow->prior = flow->inner;
	else
		cut(sk, flow, path_bdp(flow));
	flow->inner = min64(flow->inner, LEAST_WINDOW);
	flow->unearned = 0;
}

SEC("struct_ops")
void BPF_PROG(fair_state, struct sock *sk, __u8 state)
{
	struct flow *flow = flow_of(sk);

	if (flow && state == TCP_CA_LOSS) {
		time_out(sk, flow);
		/* Slow start goes on from here, and does not jump to what an overflow before has left. */
		flow->overflow_rtt = 0;
		cubictcp_state(sk, state);
		show_fair(sk, flow);
	} else if (flow && state == TCP_CA_CWR && repaired_tail(flow, tcp_sk(sk))) {
		/* A loss as any other, which met the queue that was there before: by now it has drained. Of a
		 * handshake's, the first RTT shows whether there is one. */
		if (flow->recent_next && !former_under_way(flow, tcp_sk(sk)))
			on_losses(sk, flow, 1);
		else
			flow->tail_lost = true;
		show_fair(sk, flow);
	} else if (flow && state == TCP_CA_CWR) {
		/* ECN marks, or a queue of this machine, are congestion whatever the RTT says. */
		retreat(flow);
		leave_startup(flow);
		give_up_probe(flow);
		cut(sk, flow, 0);
		show_fair(sk, flow);
	} else {
		cubictcp_state(sk, state);
	}
}

SEC("struct_ops")
__u32 BPF_PROG(fair_undo, struct sock *sk)
{
	struct flow *flow = flow_of(sk);

	if (!flow)
		return tcp_sk(sk)->snd_cwnd;
	flow->inner = max64(flow->inner, flow->prior);
	return flow->inner;
}
