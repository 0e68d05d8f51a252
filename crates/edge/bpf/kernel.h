/* The parts of the kernel that the congestion controls touch. Field offsets are relocated when
 * the object is loaded (CO-RE), so that only names and types matter here. */
#pragma once

#define RELOCATED __attribute__((preserve_access_index))

enum { AF_INET = 2, AF_INET6 = 10 };
/* enum tcp_ca_state */
enum { TCP_CA_OPEN, TCP_CA_DISORDER, TCP_CA_CWR, TCP_CA_RECOVERY, TCP_CA_LOSS };
/* enum sk_pacing */
enum { SK_PACING_NONE, SK_PACING_NEEDED };
/* tcp_congestion_ops.flags: unprivileged sockets may choose it. */
#define TCP_CONG_NON_RESTRICTED 1

struct in6_addr {
	__u8 s6_addr[16];
};

struct sock_common {
	__be32 skc_daddr;
	unsigned short skc_family;
	struct in6_addr skc_v6_daddr;
} RELOCATED;

struct sock {
	struct sock_common __sk_common;
	unsigned long sk_pacing_rate;
	unsigned long sk_max_pacing_rate;
	__u32 sk_pacing_status;
} RELOCATED;

struct inet_sock {
	struct sock sk;
} RELOCATED;

struct inet_connection_sock {
	struct inet_sock icsk_inet;
	__u8 icsk_ca_state : 5;
	__u8 icsk_retransmits;
} RELOCATED;

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	__u32 snd_cwnd;
	__u32 snd_ssthresh;
	__u32 snd_cwnd_clamp;
	__u32 prior_cwnd;
	__u32 mss_cache;
	__u32 snd_una;
	__u32 snd_nxt;
	__u32 srtt_us; /* eighths of a microsecond */
	__u32 packets_out;
	__u32 sacked_out;
	__u32 lost_out;
	__u32 retrans_out;
	__u32 max_packets_out;
	__u8 is_cwnd_limited : 1;
	__u32 delivered;
	__u32 data_segs_out;
	__u32 total_retrans;
	__u32 tlp_high_seq;
	__u8 tlp_retrans : 1;
	__u64 tcp_mstamp;
} RELOCATED;

struct rate_sample {
	__u32 prior_delivered;
	__s32 delivered;
	long interval_us;
	long rtt_us;
	int losses;
	__u32 acked_sacked;
	bool is_app_limited;
	bool is_retrans;
} RELOCATED;

struct ack_sample {
	__s32 rtt_us;
} RELOCATED;

enum tcp_ca_event {
	CA_EVENT_TX_START = 0,
};

/* libbpf finds members by their names: the order is ours, so that the server finds the name. */
struct tcp_congestion_ops {
	char name[16];
	__u32 flags;
	__u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, __u32 ack, __u32 acked);
	void (*set_state)(struct sock *sk, __u8 state);
	void (*cwnd_event)(struct sock *sk, enum tcp_ca_event event);
	void (*pkts_acked)(struct sock *sk, const struct ack_sample *sample);
	__u32 (*min_tso_segs)(struct sock *sk);
	void (*cong_control)(struct sock *sk, __u32 ack, int flag, const struct rate_sample *rs);
	__u32 (*undo_cwnd)(struct sock *sk);
	__u32 (*sndbuf_expand)(struct sock *sk);
	void (*init)(struct sock *sk);
};

extern void cubictcp_init(struct sock *sk) __ksym;
extern __u32 cubictcp_recalc_ssthresh(struct sock *sk) __ksym;
extern void cubictcp_cong_avoid(struct sock *sk, __u32 ack, __u32 acked) __ksym;
extern void cubictcp_state(struct sock *sk, __u8 state) __ksym;
extern void cubictcp_cwnd_event(struct sock *sk, enum tcp_ca_event event) __ksym;
extern void cubictcp_acked(struct sock *sk, const struct ack_sample *sample) __ksym;

/* Weak: there are kernels without BBR, on which hk_bbr is left out. */
extern void bbr_init(struct sock *sk) __ksym __weak;
extern void bbr_main(struct sock *sk, __u32 ack, int flag, const struct rate_sample *rs) __ksym __weak;
extern __u32 bbr_sndbuf_expand(struct sock *sk) __ksym __weak;
extern __u32 bbr_undo_cwnd(struct sock *sk) __ksym __weak;
extern void bbr_cwnd_event(struct sock *sk, enum tcp_ca_event event) __ksym __weak;
extern __u32 bbr_ssthresh(struct sock *sk) __ksym __weak;
extern __u32 bbr_min_tso_segs(struct sock *sk) __ksym __weak;
extern void bbr_set_state(struct sock *sk, __u8 state) __ksym __weak;

#define tcp_sk(sk) ((struct tcp_sock *)(sk))

static __always_inline __u64 max64(__u64 a, __u64 b)
{
	return a > b ? a : b;
}

static __always_inline __u64 min64(__u64 a, __u64 b)
{
	return a < b ? a : b;
}
