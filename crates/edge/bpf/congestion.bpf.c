/* Congestion controls of TCP with a floor under the window, for the kernel's struct_ops.
 *
 * hk_cubic and hk_bbr hold a fixed floor, hk_fair one that the path has shown and that yields to
 * queues. hk_move is for a moment only: it makes room for some packets. All delegate to the kernel's own algorithms. `scripts/bpf.sh` builds the object. */
#include <stdbool.h>
#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

#include "kernel.h"
#include "setting.h"
#include "flow.h"
#include "fixed.h"
#include "fair.h"
#include "failover.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Names are the machine's, over all namespaces: the server gives each its own before loading. */
SEC(".struct_ops.link")
struct tcp_congestion_ops hk_cubic = {
	.name = "hk_cubic",
	.flags = TCP_CONG_NON_RESTRICTED,
	.init = (void *)cubic_init,
	.ssthresh = (void *)cubic_ssthresh,
	.cong_control = (void *)cubic_control,
	.set_state = (void *)cubic_state,
	.undo_cwnd = (void *)cubic_undo,
	.cwnd_event = (void *)cubic_event,
	.pkts_acked = (void *)cubic_acked,
};

SEC(".struct_ops.link")
struct tcp_congestion_ops hk_bbr = {
	.name = "hk_bbr",
	.flags = TCP_CONG_NON_RESTRICTED,
	.init = (void *)bbr_begin,
	.ssthresh = (void *)bbr_threshold,
	.cong_control = (void *)bbr_control,
	.set_state = (void *)bbr_state,
	.undo_cwnd = (void *)bbr_undo,
	.cwnd_event = (void *)bbr_event,
	.sndbuf_expand = (void *)bbr_sndbuf,
	.min_tso_segs = (void *)bbr_tso,
};

SEC(".struct_ops.link")
struct tcp_congestion_ops hk_fair = {
	.name = "hk_fair",
	.flags = TCP_CONG_NON_RESTRICTED,
	.init = (void *)fair_init,
	.ssthresh = (void *)fair_ssthresh,
	.cong_control = (void *)fair_control,
	.set_state = (void *)fair_state,
	.undo_cwnd = (void *)fair_undo,
	.cwnd_event = (void *)cubic_event,
	.pkts_acked = (void *)cubic_acked,
};

SEC(".struct_ops.link")
struct tcp_congestion_ops hk_move = {
	.name = "hk_move",
	.flags = TCP_CONG_NON_RESTRICTED,
	.init = (void *)failover_init,
	.ssthresh = (void *)failover_ssthresh,
	.cong_avoid = (void *)failover_avoid,
	.set_state = (void *)failover_state,
	.undo_cwnd = (void *)failover_undo,
};
