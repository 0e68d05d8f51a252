package kernel

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"hikyaku/egress/kernel/internal/rtnl"
	"hikyaku/egress/osthread"
)

// Features lists the abilities of this kernel, found by trying them.
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
	// EndDX4 and pairs of devices (Veth) take IPv4 at a border without VRF.
	EndDX4, Veth bool
	// AddressProtocol is IFA_PROTO, the mark of addresses (Linux 5.18).
	AddressProtocol bool
	// MPTCP sockets, and a path manager that listens to netlink.
	MPTCP bool
	// MPTCPUserspace lets a program decide for each connection (Linux 5.19).
	MPTCPUserspace bool
	// MPTCPSchedulers beside the kernel's own are there, or can be loaded as eBPF programs.
	MPTCPSchedulers bool
	// EBPF and the kernel's type information (BTF), which flow statistics need.
	EBPF, BTF bool
}

// Missing is a feature that this kernel lacks.
type Missing struct {
	// Feature is the name of the field in [Features].
	Feature string
	// Cause is the kernel's answer.
	Cause error
	// Consequence names the features that do not work and those that still do.
	Consequence string
}

// String gives all of it in one line.
func (m Missing) String() string {
	return fmt.Sprintf("%s: %s (%s)", m.Feature, m.Consequence, m.Cause)
}

// Probe tries each feature, and leaves nothing behind. With CAP_SYS_ADMIN it does so in a
// network namespace of its own. Without, CAP_NET_ADMIN is enough. It then makes nexthop
// objects in the caller's for a moment, which no route uses. VRF devices are only asked for
// in a way that the kernel refuses.
func Probe(ctx context.Context) (Features, error) {
	var features Features
	var err error
	osthread.Own(func() {
		// Not only capabilities can be missing for that: sandboxes forbid it, too.
		isolated := unix.Unshare(unix.CLONE_NEWNET) == nil
		features, err = probeHere(ctx, isolated)
	})
	if err != nil {
		return Features{}, fmt.Errorf("probing the kernel's features: %w", err)
	}
	return features, nil
}

// probeHere probes in the calling thread's network namespace; isolated: it is the
// probe's own.
func probeHere(ctx context.Context, isolated bool) (Features, error) {
	applier, err := Open(Options{})
	if err != nil {
		return Features{}, err
	}
	defer applier.Close()
	p := &probe{ctx: ctx, applier: applier, isolated: isolated, device: loopback}
	if err := p.findDevice(); err != nil {
		return Features{}, err
	}
	for _, trial := range p.trials() {
		if err := ctx.Err(); err != nil {
			return Features{}, err
		}
		err := trial.try()
		if errors.Is(err, unix.EPERM) && !p.features.NexthopObjects {
			return Features{}, fmt.Errorf("making a nexthop object (needs CAP_NET_ADMIN): %w", err)
		}
		*trial.found = err == nil
		if err != nil {
			p.features.Missing = append(p.features.Missing, Missing{trial.feature, err, trial.consequence})
		}
	}
	return p.features, nil
}

// trial is one feature, where its answer goes, and the consequence if it is missing.
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
			"a border gives IPv4 SIDs of its own, whose packets pass a pair of devices; IPv6 works by tables (CONFIG_NET_VRF)"},
		{"EndDT6VRF", &f.EndDT6VRF, p.vrfNexthop(EndDT6),
			"a border looks IPv6 up by table, which does the same"},
		{"EndDT4", &f.EndDT4, p.vrfNexthop(EndDT4),
			"no SIDs for IPv4 alone; Linux 5.11 with CONFIG_NET_VRF has them"},
		{"EndDT46", &f.EndDT46, p.vrfNexthop(EndDT46),
			"no SID for both families; Linux 5.14 with CONFIG_NET_VRF has them"},
		{"EndDX4", &f.EndDX4, p.nexthop(Nexthop{Local: Local{Action: EndDX4}}),
			"no IPv4 at a border without VRF devices (CONFIG_IPV6_SEG6_LWTUNNEL)"},
		{"Veth", &f.Veth, p.pair,
			"no IPv4 at a border without VRF devices (CONFIG_VETH)"},
		{"AddressProtocol", &f.AddressProtocol, p.addressProtocol,
			"a server takes the addresses of its paths for its own, whoever has made them; Linux 5.18 has it"},
		{"MPTCP", &f.MPTCP, p.mptcp,
			"no aggregation over several paths; steering works (CONFIG_MPTCP_IPV6)"},
		{"MPTCPUserspace", &f.MPTCPUserspace, there("/proc/sys/net/mptcp/pm_type"),
			"mptcp.mode = \"kernel\" is what remains; Linux 5.19 has it"},
		{"MPTCPSchedulers", &f.MPTCPSchedulers, func() error { return findSchedulers(availableSchedulers, kernelBTF) },
			"no data sent twice over two subflows; classes of content choose subflows by their priority"},
		{"EBPF", &f.EBPF, probeEBPF,
			"no `hikyaku-egress flows`; all else works (CONFIG_BPF_SYSCALL)"},
		{"BTF", &f.BTF, there(kernelBTF),
			"no `hikyaku-egress flows`; all else works (CONFIG_DEBUG_INFO_BTF)"},
	}
}

const (
	// loopback is there in every namespace, so that no feature hangs on another kind
	// of device.
	loopback   = "lo"
	probeTable = 100
)

var probeSID = netip.MustParseAddr("2001:db8::1")

type probe struct {
	ctx     context.Context
	applier *Applier
	// isolated: the namespace is the probe's own.
	isolated bool
	device   string // to make nexthop objects on
	features Features
}

// findDevice finds a device that nexthop objects can be made on.
func (p *probe) findDevice() error {
	if p.isolated {
		return p.applier.setUp(loopback, 0)
	}
	links, err := p.applier.links()
	if err != nil {
		return err
	}
	var up []string
	for _, link := range links {
		if link.Up {
			up = append(up, link.Device)
		}
	}
	switch {
	case slices.Contains(up, loopback):
	case len(up) > 0:
		p.device = slices.Min(up)
	default:
		return errors.New("no device is up, not even the loopback")
	}
	return nil
}

// nexthop makes a nexthop object and removes it. Its number is drawn at random, since
// others and a former run of ours may have taken some.
func (p *probe) nexthop(n Nexthop) func() error {
	return func() error {
		n.Family, n.Device = IPv6, p.device
		var err error
		for range 8 {
			n.ID = FirstNexthopID + NexthopID(rand.Uint32N(1<<24))
			err = p.applier.Apply(p.ctx, []Op{{Add, n}})
			if !errors.Is(err, ErrForeign) {
				break
			}
		}
		if err != nil {
			return cause(err)
		}
		return cause(p.applier.Apply(p.ctx, []Op{{Delete, n}}))
	}
}

// vrfNexthop is nexthop for an endpoint that looks up by a VRF device.
func (p *probe) vrfNexthop(action LocalAction) func() error {
	try := p.nexthop(Nexthop{Local: Local{Action: action, Table: probeTable, VRF: true}})
	return func() error {
		err := try()
		// A kernel that looks for the table's device has the behaviour, also where it
		// finds none, or where net.vrf.strict_mode forbids the lookup.
		if !p.isolated && p.features.VRF && (errors.Is(err, unix.ENODEV) || errors.Is(err, unix.EPERM)) {
			return nil
		}
		return err
	}
}

func (p *probe) vrf() error {
	if !p.isolated {
		return p.askForVRF()
	}
	if err := p.applier.EnsureVRF(p.ctx, "vrf-probe", probeTable); err != nil {
		return err
	}
	// Opened by this thread, /proc/sys/net is that of its namespace.
	return os.WriteFile("/proc/sys/net/vrf/strict_mode", []byte("1"), 0)
}

// pair makes a pair of devices, or asks for one with the name of a device that there is. A
// kernel that has such pairs refuses the name, others do not know the kind.
func (p *probe) pair() error {
	if p.isolated {
		return p.applier.EnsurePair(p.ctx, "veth-probe", 0, probeMTU)
	}
	var b rtnl.Batch
	b.Begin(unix.RTM_NEWLINK, unix.NLM_F_CREATE|unix.NLM_F_EXCL, make([]byte, linkHeaderSize)...)
	b.String(unix.IFLA_IFNAME, p.device)
	kind(&b, "veth", func() {})
	b.End()
	if err := only(p.applier.urgent.Do(&b)); !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("asking for a pair of devices: %w", err)
	}
	return nil
}

const probeMTU = 1500

// askForVRF asks for a VRF device without a table, which no kernel makes. A kernel that has
// such devices misses the table, others do not know the kind. A real one would leave a
// policy rule behind, which the first VRF device of a namespace brings.
func (p *probe) askForVRF() error {
	var b rtnl.Batch
	b.Begin(unix.RTM_NEWLINK, unix.NLM_F_CREATE|unix.NLM_F_EXCL, make([]byte, linkHeaderSize)...)
	b.String(unix.IFLA_IFNAME, "vrf-probe")
	kind(&b, "vrf", func() {})
	b.End()
	if err := only(p.applier.urgent.Do(&b)); !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("asking for a VRF device: %w", err)
	}
	return nil
}

func (p *probe) addressProtocol() error {
	if !p.isolated {
		return p.readAddressProtocol()
	}
	a := Address{Device: loopback, Prefix: netip.PrefixFrom(probeSID, 128), NoDAD: true}
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

// readAddressProtocol looks at the kernel's own addresses, as that of the loopback: they
// have the mark where there is one.
func (p *probe) readAddressProtocol() error {
	marked := false
	var b rtnl.Batch
	b.Begin(unix.RTM_GETADDR, unix.NLM_F_DUMP, make([]byte, addressHeaderSize)...)
	b.End()
	err := p.applier.reading.Query(&b, func() {}, func(_ uint16, body []byte) error {
		for kind := range rtnl.Attributes(body[min(addressHeaderSize, len(body)):]) {
			marked = marked || kind == ifaProto
		}
		return nil
	})
	if err == nil && !marked {
		err = errors.New("no address has a protocol")
	}
	return err
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

// there reports whether a file of the kernel is there.
func there(path string) func() error {
	return func() error {
		_, err := os.Stat(path)
		return err
	}
}

// probeEBPF makes a call of bpf(2) that no kernel knows: whether this process may use it
// is not asked.
func probeEBPF() error {
	_, _, errno := unix.Syscall(unix.SYS_BPF, math.MaxInt32, 0, 0)
	if errno == unix.ENOSYS {
		return errno
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
