/* What is kept of a socket, and what all three congestion controls do alike. */
#pragma once

/* 100 ms, in eighths of a microsecond. */
enum { UNKNOWN_SRTT = 800000 };

/* Packets, in 1024ths, weighted by age. */
struct count {
	__u64 acked;
	__u64 lost;
};

/* The least two RTTs of the rounds of some time, in microseconds; 0 for none. */
struct least {
	__u32 first;
	__u32 second;
};

struct flow {
	/* The delegate's window without floor or probe, and what it was before the last cut. */
	__u32 inner;
	__u32 prior;
	/* Bytes: of the prefix, where the socket has no setting of its own. */
	__u32 floor;

	/* hk_fair from here on. `former`: some of what was sent before it began is under way, until
	 * `former_end` is acknowledged. */
	__u32 former_end;
	bool former;
	/* A tail loss probe (RFC 8985 §7) that sends the last packet again is under way; it has shown that
	 * the packet was lost, which is not counted yet. */
	bool probes_tail;
	bool tail_lost;
	/* tp->total_retrans after the last acknowledgement. */
	__u32 retransmitted;
	/* A round ends when a packet sent after its start is acknowledged. */
	__u32 round;
	__u32 round_end;
	__u32 round_rtt;
	/* Packets a microsecond, in 2^-24: of this round and the last, the largest of these five
	 * rounds and of the five before. */
	__u64 round_rate;
	__u64 last_rate;
	__u64 rates[2];
	/* The path's rate when this round began, and the one before. */
	__u64 rate_then[2];
	struct least rtts[2];
	__u32 rtt_rounds;
	__u64 rtts_since;
	__u32 recent[4];
	__u32 recent_next;
	/* The least of the last eight RTTs that were counted together, and of those since. */
	__u32 block_rtt;
	__u32 tail_rtt;
	__u32 tail_rtts;
	/* Acknowledged packets that slow start has not grown by, less than GROWTH_DIVISOR. */
	__u32 held_back;

	/* Packets but for probes, and of the round. */
	struct count calm;
	struct count whole;
	/* That probes lose more; and what a packet of the probe adds to it. */
	__s64 evidence;
	__s32 if_acked;
	__s32 if_lost;
	__u32 trust_from;
	__u32 doubt;

	bool startup;
	/* Slow start may triple its window. */
	bool rapid;
	__u8 stalled;
	bool probe;
	bool jumped;
	__u32 probe_round;
	/* Rounds from it to the next, and whether it has met a queue. */
	__u32 probe_interval;
	bool probe_met;
	__u64 probe_rate;
	__u64 startup_rate;
	/* The last in which slow start grew. */
	__u32 startup_round;
	/* RTT and round of the last cut, where slow start had overflowed the path; 0 after some rounds. */
	__u32 overflow_rtt;
	__u32 overflow_round;
	/* One more than the round; 0 for never. */
	__u32 forgiven;
	/* When a packet sent since the last cut was first acknowledged, in microseconds; 0 if none was. */
	__u64 past_cut;
	/* tp->delivered at the last cut, and at the jump. */
	__u32 cut_at;
	__u32 jump_at;
	__u32 jump_before;
	/* Until the first RTT shows whether it is the same path; and packets of the window until then
	 * that CUBIC would not have begun with. */
	__u32 known_min_rtt;
	__u64 known_bdp;
	__u32 unearned;
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct flow);
} flows SEC(".maps");

/* The server writes it by file descriptor, at any time. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct setting);
} settings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, MAX_PREFIXES);
	__type(key, struct prefix);
	__type(value, struct setting);
} prefixes SEC(".maps");

static __always_inline struct flow *flow_of(struct sock *sk)
{
	return bpf_sk_storage_get(&flows, sk, 0, 0);
}

/* The socket's own setting, else that of the longest prefix of its peer. */
static __always_inline struct setting *setting_of(struct sock *sk)
{
	struct setting *own = bpf_sk_storage_get(&settings, sk, 0, 0);
	struct prefix peer = { .bits = 128 };

	if (own)
		return own;
	if (sk->__sk_common.skc_family == AF_INET6) {
		struct in6_addr address = sk->__sk_common.skc_v6_daddr;

		__builtin_memcpy(peer.address, &address, 16);
	} else {
		__be32 address = sk->__sk_common.skc_daddr;

		peer.address[10] = 0xff;
		peer.address[11] = 0xff;
		__builtin_memcpy(peer.address + 12, &address, 4);
	}
	return bpf_map_lookup_elem(&prefixes, &peer);
}

static __always_inline __u32 packets(struct tcp_sock *tp, __u64 bytes)
{
	__u32 mss = tp->mss_cache;

	return mss ? (bytes + mss - 1) / mss : 0;
}

/* What every sender may send at once (RFC 6928 §2), in packets. */
enum { LEAST_WINDOW = 10 };

/* Whether all that the socket has sent is what a new one sends at once, such as a handshake. */
static __always_inline bool is_fresh(struct tcp_sock *tp)
{
	return tp->data_segs_out <= LEAST_WINDOW;
}

/* Begins with what the socket has. Only a fresh one takes an initial window. */
static __always_inline struct flow *begin(struct sock *sk)
{
	struct flow *flow = bpf_sk_storage_get(&flows, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	struct tcp_sock *tp = tcp_sk(sk);
	struct setting *setting = setting_of(sk);

	if (!flow)
		return 0;
	__builtin_memset(flow, 0, sizeof(*flow));
	flow->inner = tp->snd_cwnd;
	if (setting) {
		flow->floor = setting->floor;
		flow->known_bdp = setting->known_bdp;
		flow->known_min_rtt = setting->known_min_rtt;
		if (is_fresh(tp))
			flow->inner = max64(flow->inner, setting->init_window);
		flow->unearned = flow->inner - tp->snd_cwnd;
	}
	flow->prior = flow->inner;
	flow->cut_at = flow->round_end = tp->delivered;
	flow->past_cut = 1;
	flow->former_end = tp->snd_nxt;
	flow->former = tp->data_segs_out;
	/* A floor that is sent as one burst would overflow queues that it fits into. */
	if (sk->sk_pacing_status == SK_PACING_NONE)
		sk->sk_pacing_status = SK_PACING_NEEDED;
	return flow;
}

/* Bytes a second that send `window` packets in `100 / percent` of a round trip. Packets that the receiver has
 * or that are lost do not count: beside them the retransmissions of an overflow would come at twice the
 * path's rate, and overflow it again.
 *
 * A subflow that joins begins before its handshake is measured. MPTCP shares data out by averages of the
 * subflows' rates: one without limit overflows them, and a far too high one keeps all data to itself for
 * a second. One that is too low is corrected as soon as the subflow has nothing more to send. */
static __always_inline __u64 pace_of(struct tcp_sock *tp, __u64 window, __u32 percent)
{
	__u64 rate = (__u64)tp->mss_cache * 80000 * percent * window;

	return rate / (tp->srtt_us ? tp->srtt_us : UNKNOWN_SRTT);
}

static __always_inline void set_pace(struct sock *sk, __u64 rate)
{
	sk->sk_pacing_rate = min64(rate, sk->sk_max_pacing_rate);
}

/* Shows the kernel a window. */
static __always_inline void show(struct tcp_sock *tp, __u64 window)
{
	tp->snd_cwnd = min64(max64(window, 1), tp->snd_cwnd_clamp);
}
