/* hk_move: the kernel's CUBIC that begins with room for some packets more than are in flight.
 *
 * All that a connection has in flight when its path becomes a black hole fills its window, and the
 * kernel waits for its timers before it sends anything over another path. A socket that is given this
 * control and its former one again sends new data at once; the receiver's answers to them show the
 * kernel which packets are lost (RFC 8985). */
#pragma once

/* What every sender may send on a path that it does not know (RFC 6928 §2). */
enum { FAILOVER_PACKETS = 10 };

SEC("struct_ops")
void BPF_PROG(failover_init, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	__u32 left = tp->sacked_out + tp->lost_out;
	__u32 in_flight = tp->packets_out - left + tp->retrans_out;

	cubictcp_init(sk);
	show(tp, max64(tp->snd_cwnd, (__u64)in_flight + FAILOVER_PACKETS));
}

SEC("struct_ops")
__u32 BPF_PROG(failover_ssthresh, struct sock *sk)
{
	return cubictcp_recalc_ssthresh(sk);
}

SEC("struct_ops")
void BPF_PROG(failover_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	cubictcp_cong_avoid(sk, ack, acked);
}

SEC("struct_ops")
void BPF_PROG(failover_state, struct sock *sk, __u8 state)
{
	cubictcp_state(sk, state);
}

SEC("struct_ops")
__u32 BPF_PROG(failover_undo, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);

	return max64(tp->snd_cwnd, tp->prior_cwnd);
}
