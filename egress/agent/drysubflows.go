package agent

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"hikyaku/egress/api"
	"hikyaku/egress/config"
	"hikyaku/egress/mptcp"
)

// drySubflows prints the changes that would be made to the settings of MPTCP.
type drySubflows struct {
	noSubflows
	config *config.Server
	out    io.Writer
	inside bool // the in-kernel path manager has the endpoints
	have   []mptcp.Endpoint
}

// newDrySubflows prints settings, and fails where they could not be made.
func newDrySubflows(c *config.Server, out io.Writer) (subflows, error) {
	manager := mptcp.UserSpace
	switch c.MPTCP.Mode {
	case config.MPTCPOff:
		return noSubflows{}, nil
	case config.MPTCPKernel:
		manager = mptcp.InKernel
	}
	settings, err := mptcp.ReadSettings()
	switch {
	case err != nil:
		return nil, fmt.Errorf("mptcp.mode is %q: %w", c.MPTCP.Mode, err)
	case settings.PathManager == manager:
	case !c.Kernel.SetSysctls:
		return nil, fmt.Errorf("kernel.set_sysctls is false: set net.mptcp.pm_type=%d", manager)
	default:
		fmt.Fprintf(out, "sysctl -w net.mptcp.pm_type=%d\n", manager)
	}
	if err := dryTimeout(c, out); err != nil {
		return nil, err
	}
	if manager == mptcp.UserSpace {
		return &drySubflows{config: c, out: out}, nil
	}
	client, err := mptcp.Dial()
	if err != nil {
		return nil, err
	}
	limits, err := client.Limits()
	have, listed := client.Endpoints()
	if err := errors.Join(err, listed, client.Close()); err != nil {
		return nil, err
	}
	if limits.Subflows != uint32(c.MPTCP.Subflows) {
		fmt.Fprintf(out, "ip mptcp limits set subflows %d\n", c.MPTCP.Subflows)
	}
	return &drySubflows{config: c, out: out, inside: true, have: have}, nil
}

// dryTimeout prints the setting that [setSysctls] would change beside the path manager.
func dryTimeout(c *config.Server, out io.Writer) error {
	wanted := int(c.MPTCP.AddAddrTimeout / time.Second)
	now, err := mptcp.SysctlAddAddrTimeout.Read()
	if err == nil && c.Kernel.SetSysctls && now != wanted {
		_, err = fmt.Fprintf(out, "sysctl -w net.mptcp.%s=%d\n", mptcp.SysctlAddAddrTimeout, wanted)
	}
	return err
}

func (d *drySubflows) update(paths []api.Path, _ []api.Policy) error {
	if !d.inside {
		return nil
	}
	for _, op := range mptcp.PlanEndpoints(d.have, maxEndpoints(subflowPaths(paths), d.config)) {
		if _, err := fmt.Fprintln(d.out, op); err != nil {
			return err
		}
		d.have = slices.DeleteFunc(d.have, func(e mptcp.Endpoint) bool { return e.Addr == op.Endpoint.Addr })
		if op.Kind != mptcp.EndpointDelete {
			d.have = append(d.have, op.Endpoint)
		}
	}
	return nil
}
