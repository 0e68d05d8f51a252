/* hk_cubic and hk_bbr: a floor under the window, whatever is lost (FLOOR §5).
 *
 * The delegate works on its own window, `inner`, which stands in snd_cwnd only while it runs.
 * With cong_control the kernel leaves the window alone in recovery and after idle times; only a
 * retransmission timeout sets it, and set_state puts the floor back then. */
#pragma once

static __always_inline __u32 floor_of(struct sock *sk, struct flow *flow)
{
	struct setting *own = bpf_sk_storage_get(&settings, sk, 0, 0);

	return packets(tcp_sk(sk), own ? own->floor : flow->floor);
}

/* Window and pace for the larger of inner window and floor. */
static __always_inline void hold(struct sock *sk, struct flow *flow)
{
	struct tcp_sock *tp = tcp_sk(sk);
	__u32 floor = floor_of(sk, flow);

	show(tp, max64(flow->inner, floor));
	/* The slow start of the kernel doubles the pace; a floor has nothing to look for. */
	if (flow->inner >= floor && flow->inner < tp->snd_ssthresh / 2)
		set_pace(sk, pace_of(tp, flow->inner, 200));
	else
		set_pace(sk, pace_of(tp, tp->snd_cwnd, 120));
}

static __always_inline void hold_bbr(struct sock *sk, struct flow *flow)
{
	__u32 floor = floor_of(sk, flow);

	show(tcp_sk(sk), max64(flow->inner, floor));
	if (floor > flow->inner)
		set_pace(sk, max64(sk->sk_pacing_rate, pace_of(tcp_sk(sk), floor, 120)));
}

SEC("struct_ops")
void BPF_PROG(cubic_init, struct sock *sk)
{
	struct flow *flow;

	cubictcp_init(sk);
	flow = begin(sk);
	if (flow)
		hold(sk, flow);
}

SEC("struct_ops")
__u32 BPF_PROG(cubic_ssthresh, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct flow *flow = flow_of(sk);
	__u32 shown = tp->snd_cwnd, ssthresh;

	if (!flow)
		return cubictcp_recalc_ssthresh(sk);
	flow->prior = flow->inner;
	show(tp, flow->inner);
	ssthresh = cubictcp_recalc_ssthresh(sk);
	tp->snd_cwnd = shown;
	return ssthresh;
}

SEC("struct_ops")
void BPF_PROG(cubic_control, struct sock *sk, __u32 ack, int flag, const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct flow *flow = flow_of(sk);
	int state = BPF_CORE_READ_BITFIELD(&tp->inet_conn, icsk_ca_state);

	if (!flow)
		return;
	if (state == TCP_CA_CWR || state == TCP_CA_RECOVERY) {
		flow->inner = min64(flow->inner, tp->snd_ssthresh);
	} else if (rs->acked_sacked) {
		show(tp, flow->inner);
		cubictcp_cong_avoid(sk, ack, rs->acked_sacked);
		flow->inner = tp->snd_cwnd;
	}
	hold(sk, flow);
}

SEC("struct_ops")
void BPF_PROG(cubic_state, struct sock *sk, __u8 state)
{
	struct flow *flow = flow_of(sk);

	cubictcp_state(sk, state);
	if (flow && state == TCP_CA_LOSS) {
		flow->inner = tcp_sk(sk)->snd_cwnd;
		hold(sk, flow);
	}
}

SEC("struct_ops")
__u32 BPF_PROG(cubic_undo, struct sock *sk)
{
	struct flow *flow = flow_of(sk);

	if (!flow)
		return tcp_sk(sk)->snd_cwnd;
	flow->inner = max64(flow->inner, flow->prior);
	return max64(flow->inner, floor_of(sk, flow));
}

SEC("struct_ops")
void BPF_PROG(cubic_event, struct sock *sk, int event)
{
	cubictcp_cwnd_event(sk, event);
}

SEC("struct_ops")
void BPF_PROG(cubic_acked, struct sock *sk, const struct ack_sample *sample)
{
	cubictcp_acked(sk, sample);
}

SEC("struct_ops")
void BPF_PROG(bbr_begin, struct sock *sk)
{
	struct flow *flow;

	bbr_init(sk);
	flow = begin(sk);
	if (flow)
		hold_bbr(sk, flow);
}

SEC("struct_ops")
void BPF_PROG(bbr_control, struct sock *sk, __u32 ack, int flag, const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct flow *flow = flow_of(sk);

	if (!flow)
		return;
	show(tp, flow->inner);
	bbr_main(sk, ack, flag, rs);
	flow->inner = tp->snd_cwnd;
	hold_bbr(sk, flow);
}

SEC("struct_ops")
void BPF_PROG(bbr_state, struct sock *sk, __u8 state)
{
	struct flow *flow = flow_of(sk);

	bbr_set_state(sk, state);
	if (flow && state == TCP_CA_LOSS) {
		flow->inner = tcp_sk(sk)->snd_cwnd;
		hold_bbr(sk, flow);
	}
}

SEC("struct_ops")
__u32 BPF_PROG(bbr_threshold, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct flow *flow = flow_of(sk);
	__u32 shown = tp->snd_cwnd, ssthresh;

	if (!flow)
		return bbr_ssthresh(sk);
	/* BBR keeps the window of this moment for the end of recovery. */
	show(tp, flow->inner);
	ssthresh = bbr_ssthresh(sk);
	tp->snd_cwnd = shown;
	return ssthresh;
}

SEC("struct_ops")
__u32 BPF_PROG(bbr_undo, struct sock *sk)
{
	return bbr_undo_cwnd(sk);
}

SEC("struct_ops")
void BPF_PROG(bbr_event, struct sock *sk, int event)
{
	bbr_cwnd_event(sk, event);
}

SEC("struct_ops")
__u32 BPF_PROG(bbr_sndbuf, struct sock *sk)
{
	return bbr_sndbuf_expand(sk);
}

SEC("struct_ops")
__u32 BPF_PROG(bbr_tso, struct sock *sk)
{
	return bbr_min_tso_segs(sk);
}
