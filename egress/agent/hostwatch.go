package agent

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"hikyaku/egress/config"
)

// hostWatch follows the settings and links of a border's machine that packets to SIDs need.
// Other software changes them without a word to the agent.
//
// The engine's lock guards it.
type hostWatch struct {
	sysctls []sysctl
	// trouble are sentences for the operator.
	trouble []string
}

// hostInterval is the time between two looks. The kernel does not report changes of sysctls.
const hostInterval = time.Second

// watchHost looks until ctx ends.
func (b *Border) watchHost(ctx context.Context) {
	d, err := openDevices()
	if err != nil {
		b.log.Error("watching sysctls and links", "error", err)
		return
	}
	defer d.close()
	look := func() {
		c := b.current()
		trouble := append(b.checkSysctls(c), checkLinks(c, d)...)
		var changed bool
		b.locked(func() { changed, b.host.trouble = !slices.Equal(b.host.trouble, trouble), trouble })
		if changed {
			b.post(ctx, func(context.Context) {}) // the loop logs problems
		}
	}
	look()
	every(ctx, hostInterval, look)
}

// checkSysctls sets sysctls back that others have changed. Where the agent may not, it returns
// them as sentences.
func (b *Border) checkSysctls(c *config.Border) (trouble []string) {
	var wanted []sysctl
	b.locked(func() { wanted = b.host.sysctls })
	for _, s := range wanted {
		value, err := os.ReadFile(s.path())
		if err != nil || strings.TrimSpace(string(value)) == s.value {
			continue // without its interface it is not there: that is a trouble of its own
		}
		if c.Kernel.SetSysctls {
			if err = os.WriteFile(s.path(), []byte(s.value), 0); err == nil {
				b.log.Warn("others have changed a sysctl; it is set back", "sysctl", s.key, "value", s.value)
				continue
			}
		}
		trouble = append(trouble, fmt.Sprintf("the sysctl %s is not %s, which others have changed: packets to SIDs may be dropped; "+
			"set it, and look for the software that changes it", s.key, s.value))
	}
	return trouble
}

// checkLinks returns which of the configured interfaces are down.
func checkLinks(c *config.Border, d *devices) (trouble []string) {
	for _, name := range c.SRv6.Interfaces {
		if _, up, err := d.state(name); err != nil || !up {
			trouble = append(trouble, fmt.Sprintf("the interface %s (srv6.interfaces) is down: servers' packets do not come in by it", name))
		}
	}
	for i := range c.Peers {
		p := &c.Peers[i]
		name := p.Interface
		if name == "" {
			name = p.Address.Zone()
		}
		if name == "" {
			continue
		}
		if _, up, err := d.state(name); err != nil || !up {
			trouble = append(trouble, fmt.Sprintf("peer %s: its interface %s is down", p.Name, name))
		}
	}
	return trouble
}
