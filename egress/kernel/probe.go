package kernel

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"

	"hikyaku/egress/kernel/internal/rtnl"
)

// Features says what this kernel can do, found by trying it.
type Features struct {
	// Missing explains each feature below that is false.
	Missing []Missing
	// NexthopObjects are needed for everything here (Linux 5.3).
	NexthopObjects bool
	// Seg6 is SRv6 encapsulation: a server needs it.
	Seg6 bool
	// Seg6Reduced is H.Encaps.Red (Linux 6.0).
	Seg6Reduced bool
	// EndDT6 looks up by table: a border needs it.
	EndDT6 bool
	// VRF devices, and the endpoints which look up by them.
	VRF, EndDT6VRF, EndDT4, EndDT46 bool
	// AddressProtocol is IFA_PROTO, the mark of addresses (Linux 5.18).
	AddressProtocol bool
	// MPTCP sockets, and a path manager that listens to netlink.
	MPTCP bool
}

// Missing is a feature that this kernel lacks.
type Missing struct {
	// Feature is the name of the field in [Features].
	Feature string
	// Cause is what the kernel answered.
	Cause error
	// Consequence says what does not work and what still does.
	Consequence string
}

// String gives all of it in one line.
func (m Missing) String() string {
	return fmt.Sprintf("%s: %s (%s)", m.Feature, m.Consequence, m.Cause)
}

// Probe tries each feature in a network namespace of its own, which is gone when it
// returns; nothing else is touched. It needs CAP_SYS_ADMIN.
func Probe(ctx context.Context) (Features, error) {
	type result struct {
		features Features
		err      error
	}
	results := make(chan result, 1)
	go func() {
		// Never unlocked: the thread, and with it the namespace, ends here.
		runtime.LockOSThread()
		features, err := probeIsolated(ctx)
		results <- result{features, err}
	}()
	r := <-results
	if r.err != nil {
		return Features{}, fmt.Errorf("probing the kernel's features: %w", r.err)
	}
	return r.features, nil
}

func probeIsolated(ctx context.Context) (Features, error) {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return Features{}, fmt.Errorf("making a network namespace (needs CAP_SYS_ADMIN): %w", err)
	}
	applier, err := Open(Options{})
	if err != nil {
		return Features{}, err
	}
	defer applier.Close()
	if err := applier.setUp(probeDevice, 0); err != nil {
		return Features{}, err
	}
	p := &probe{ctx: ctx, applier: applier}
	for _, trial := range p.trials() {
		if err := ctx.Err(); err != nil {
			return Features{}, err
		}
		err := trial.try()
		*trial.found = err == nil
		if err != nil {
			p.features.Missing = append(p.features.Missing, Missing{trial.feature, err, trial.consequence})
		}
	}
	return p.features, nil
}

// trial is one feature, where its answer goes, and what it means if it is missing.
type trial struct {
	feature     string
	found       *bool
	try         func() error
	consequence string
}

// trials are in the order in which they must be made: some need VRF.
func (p *probe) trials() []trial {
	f := &p.features
	return []trial{
		{"NexthopObjects", &f.NexthopObjects, p.nexthop(Nexthop{}),
			"nothing of hikyaku-egress works; Linux 5.3 has them"},
		{"Seg6", &f.Seg6, p.nexthop(Nexthop{Encap: Encap, SID: probeSID}),
			"no server: paths cannot be chosen; a border works (CONFIG_IPV6_SEG6_LWTUNNEL)"},
		{"Seg6Reduced", &f.Seg6Reduced, p.nexthop(Nexthop{Encap: EncapReduced, SID: probeSID}),
			"the outer header takes 64 bytes, not 40; Linux 6.0 has it"},
		{"EndDT6", &f.EndDT6, p.nexthop(Nexthop{Local: Local{Action: EndDT6, Table: probeTable}}),
			"no border; a server works (CONFIG_IPV6_SEG6_LWTUNNEL)"},
		{"VRF", &f.VRF, p.vrf,
			"no SRv6 for IPv4 clients at a border, they take the best path; IPv6 works by tables (CONFIG_NET_VRF)"},
		{"EndDT6VRF", &f.EndDT6VRF, p.nexthop(Nexthop{Local: Local{Action: EndDT6, Table: probeTable, VRF: true}}),
			"a border looks IPv6 up by table, which does the same"},
		{"EndDT4", &f.EndDT4, p.nexthop(Nexthop{Local: Local{Action: EndDT4, Table: probeTable, VRF: true}}),
			"no SIDs for IPv4 alone; Linux 5.11 with CONFIG_NET_VRF has them"},
		{"EndDT46", &f.EndDT46, p.nexthop(Nexthop{Local: Local{Action: EndDT46, Table: probeTable, VRF: true}}),
			"no SID for both families; Linux 5.14 with CONFIG_NET_VRF has them"},
		{"AddressProtocol", &f.AddressProtocol, p.addressProtocol,
			"our addresses are known by the agent's own notes alone; Linux 5.18 has it"},
		{"MPTCP", &f.MPTCP, p.mptcp,
			"no aggregation over several paths; steering works (CONFIG_MPTCP_IPV6)"},
	}
}

// probeDevice is there in every namespace, so that no feature hangs on another kind
// of device.
const (
	probeDevice = "lo"
	probeTable  = 100
)

var probeSID = netip.MustParseAddr("2001:db8::1")

type probe struct {
	ctx      context.Context
	applier  *Applier
	features Features
}

func (p *probe) nexthop(n Nexthop) func() error {
	n.ID, n.Family, n.Device = 1, IPv6, probeDevice
	return func() error {
		if err := p.applier.Apply(p.ctx, []Op{{Add, n}}); err != nil {
			return cause(err)
		}
		return cause(p.applier.Apply(p.ctx, []Op{{Delete, n}}))
	}
}

func (p *probe) vrf() error {
	if err := p.applier.EnsureVRF(p.ctx, "vrf-probe", probeTable); err != nil {
		return err
	}
	// Opened by this thread, /proc/sys/net is that of its namespace.
	return os.WriteFile("/proc/sys/net/vrf/strict_mode", []byte("1"), 0)
}

func (p *probe) addressProtocol() error {
	a := Address{Device: probeDevice, Prefix: netip.PrefixFrom(probeSID, 128), NoDAD: true}
	if err := p.applier.Apply(p.ctx, []Op{{Add, a}}); err != nil {
		return cause(err)
	}
	state, err := p.applier.Read(p.ctx)
	if err != nil {
		return err
	}
	if !slices.Contains(state.Addresses, a) {
		return errors.New("an address does not keep its protocol")
	}
	return nil
}

func (p *probe) mptcp() error {
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, unix.IPPROTO_MPTCP)
	if err != nil {
		return fmt.Errorf("opening an MPTCP socket: %w", err)
	}
	unix.Close(fd)
	conn, err := rtnl.Dial(unix.NETLINK_GENERIC)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := genericFamily(conn, "mptcp_pm"); err != nil {
		return fmt.Errorf("finding the MPTCP path manager: %w", err)
	}
	return nil
}

// cause takes the one failure out of an ApplyError, which would repeat the trial.
func cause(err error) error {
	var failed *ApplyError
	if errors.As(err, &failed) && len(failed.Failed) == 1 {
		return failed.Failed[0].Err
	}
	return err
}
