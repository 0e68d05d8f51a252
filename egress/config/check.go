package config

import (
	"fmt"
	"net/netip"
	"os/user"
	"path/filepath"
	"regexp"
	"strconv"
	"time"
)

// need reports a key that the file lacks; why names its purpose.
func (d *decoder) need(key, why string) {
	if !d.given(key) {
		d.report(key, "`%s` is missing: %s", leaf(key), why)
	}
}

// usable reports whether a key was given and has a value of the right form, so
// that there is something to check.
func (d *decoder) usable(key string) bool { return d.given(key) && !d.wrong[key] }

// unique reports the second key that has a value.
type unique[T comparable] struct {
	what string
	seen map[T]string
}

func newUnique[T comparable](what string) unique[T] { return unique[T]{what, map[T]string{}} }

// add notes that owner has value; key is the place where it says so.
func (u unique[T]) add(d *decoder, key, owner string, value T) {
	var none T
	if value == none || d.wrong[key] {
		return
	}
	if first, taken := u.seen[value]; taken {
		d.report(key, "%s %v of %s is that of %s, too: give each its own", u.what, value, owner, first)
		return
	}
	u.seen[value] = owner
}

func (d *decoder) checkCommon(c *Common) {
	d.need("asn", "the number of the own AS")
	if d.usable("asn") {
		d.checkASN("asn", c.ASN)
	}
	d.need("router_id", "the BGP identifier, an IPv4 address that nobody else in the AS has")
	if id := c.RouterID; d.usable("router_id") && (!id.Is4() || id.IsUnspecified() || id.IsMulticast()) {
		d.report("router_id", "`router_id` is %s: it must be an IPv4 address (RFC 6286), also where all else is IPv6", id)
	}
	d.checkBGP(c.BGP)
	if len(c.Reflectors) == 0 && !d.wrong["reflector"] {
		d.report("reflector", "no [[reflector]]: name at least one route reflector of the own AS")
	}
	d.checkAPI(c.API)
	if !filepath.IsAbs(c.State.Dir) && !d.wrong["state.dir"] {
		d.report("state.dir", "`dir` is `%s`: it must be an absolute path", c.State.Dir)
	}
	d.checkFlows(c.Flows)
}

// checkASN refuses numbers that are no AS of their own (RFC 7607, RFC 6793, RFC 7300).
func (d *decoder) checkASN(key string, asn uint32) {
	switch asn {
	case 0, 23456, 65535, 4294967295:
		d.report(key, "AS %d is reserved and can't be anybody's", asn)
	}
}

func (d *decoder) checkBGP(b BGP) {
	for i, address := range b.Listen {
		key := fmt.Sprintf("bgp.listen[%d]", i)
		if address.IsMulticast() {
			d.report(key, "`listen` has %s, which is multicast", address)
		}
	}
	if b.Port == 0 {
		d.report("bgp.port", "`port` is 0: BGP's is 179")
	}
	d.checkHoldTime("bgp.hold_time", b.HoldTime)
	d.atLeast("bgp.connect_retry", b.ConnectRetry, time.Second)
	d.atLeast("bgp.stale_time", b.StaleTime, time.Second)
	if b.RestartTime%time.Second != 0 || b.RestartTime > maxRestartTime {
		d.report("bgp.restart_time", "`restart_time` is %s: it must be whole seconds, at most %s (RFC 4724 §3)",
			b.RestartTime, maxRestartTime)
	}
}

// maxRestartTime is the greatest time that fits into 12 bits on the wire.
const maxRestartTime = 4095 * time.Second

func (d *decoder) checkHoldTime(key string, hold time.Duration) {
	if d.wrong[key] {
		return
	}
	if hold%time.Second != 0 || hold < 3*time.Second || hold > 65535*time.Second {
		d.report(key, "`hold_time` is %s: it must be whole seconds from 3s to 65535s (RFC 4271 §4.2)", hold)
	}
}

func (d *decoder) atLeast(key string, value, least time.Duration) {
	if value < least && !d.wrong[key] {
		d.report(key, "`%s` is %s: at least %s is needed", leaf(key), value, least)
	}
}

// maxSocketPath is the length that fits into sockaddr_un, without the final zero.
const maxSocketPath = 107

func (d *decoder) checkAPI(a API) {
	switch {
	case d.wrong["api.socket"]:
	case !filepath.IsAbs(a.Socket):
		d.report("api.socket", "`socket` is `%s`: it must be an absolute path", a.Socket)
	case len(a.Socket) > maxSocketPath:
		d.report("api.socket", "`socket` has %d bytes: a Unix socket's path has at most %d", len(a.Socket), maxSocketPath)
	}
	if a.Mode&0o600 != 0o600 && !d.wrong["api.mode"] {
		d.report("api.mode", "`mode` %04o does not let the owner read and write: start with 06", uint32(a.Mode))
	}
	if d.usable("api.group") && a.Group != "" && !groupExists(a.Group) {
		d.report("api.group", "there is no group `%s` here: make it with `groupadd --system %s`, or name another", a.Group, a.Group)
	}
}

// groupExists takes numbers on trust, as chown does.
func groupExists(group string) bool {
	if _, err := strconv.ParseUint(group, 10, 32); err == nil {
		return true
	}
	_, err := user.LookupGroup(group)
	return err == nil
}

func (d *decoder) checkFlows(f Flows) {
	d.checkInterfaces("flows.interfaces", f.Interfaces)
	d.atLeast("flows.interval", f.Interval, 10*time.Millisecond)
	d.atLeast("flows.idle", f.Idle, max(f.Interval, ShortestIdle))
	if (f.MaxFlows < 1024 || f.MaxFlows > LargestMaxFlows) && !d.wrong["flows.max_flows"] {
		d.report("flows.max_flows", "`max_flows` is %d: it must be 1024 to %d", f.MaxFlows, LargestMaxFlows)
	}
	for key, out := range map[string]Output{"flows.json": f.JSON, "flows.csv": f.CSV} {
		if file := out.File(); file != "" && !filepath.IsAbs(file) {
			d.report(key, "`%s` is `%s`: expected \"off\", \"stdout\" or an absolute path", leaf(key), file)
		}
	}
	if f.JSON == f.CSV && f.JSON != OutputOff {
		d.report("flows.csv", "`json` and `csv` both go to %s: send one elsewhere", f.CSV)
	}
}

// checkInterfaces checks names that the kernel would not take; whether there
// are such interfaces, the agent finds out.
func (d *decoder) checkInterfaces(key string, names []string) {
	seen := newUnique[string]("interface")
	for i, name := range names {
		item := fmt.Sprintf("%s[%d]", key, i)
		if !d.given(item) {
			continue // It comes from another key, which is checked itself.
		}
		d.checkInterface(item, name)
		seen.add(d, item, fmt.Sprintf("entry %d", i+1), name)
	}
}

var interfaceName = regexp.MustCompile(`^[^\s/:]{1,15}$`)

func (d *decoder) checkInterface(key, name string) {
	if !d.wrong[key] && (!interfaceName.MatchString(name) || name == "." || name == "..") {
		d.report(key, "`%s` is no interface name: 1 to 15 characters, no spaces, no `/` and no `:`", name)
	}
}

// checkUnicast refuses addresses that no other machine can send to.
func (d *decoder) checkUnicast(key string, address netip.Addr) bool {
	if address.IsUnspecified() || address.IsMulticast() || address.IsLoopback() || address.IsLinkLocalUnicast() {
		d.report(key, "`%s` is %s: it must be a unicast address that the AS routes", leaf(key), address)
		return false
	}
	return true
}

// checkTables refuses the kernel's own tables.
func (d *decoder) checkTables(key string, tables Tables) {
	if tables.First == 0 || (tables.First <= 255 && tables.Last >= 253) {
		d.report(key, "`tables` %d-%d holds one of the kernel's own (0, 253 default, 254 main, 255 local): begin above 255",
			tables.First, tables.Last)
	}
}

func (d *decoder) checkTable(key, owner string, table uint32) {
	if table >= 253 && table <= 255 {
		d.report(key, "table %d of %s is one of the kernel's own (253 default, 254 main, 255 local)", table, owner)
	}
}

// mainPriority is that of the rule for the main table.
const mainPriority = 32766

// rulePriorities is the number of priorities that the agent uses.
const rulePriorities = 10

func (d *decoder) checkRulePriority(priority uint32) {
	const key = "kernel.rule_priority"
	if !d.wrong[key] && (priority == 0 || priority > mainPriority-rulePriorities) {
		d.report(key, "`rule_priority` is %d: it must be 1 to %d, so that ten rules come before the main table's (%d)",
			priority, mainPriority-rulePriorities, mainPriority)
	}
}
