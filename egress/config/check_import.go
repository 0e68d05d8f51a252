package config

import (
	"fmt"
	"net/netip"
	"time"
)

func (d *decoder) checkMaxLengths(path string, ipv6, ipv4 uint8) {
	if key := path + ".ipv6_max_length"; ipv6 > 128 && !d.wrong["import.ipv6_max_length"] {
		d.report(key, "`ipv6_max_length` is %d: an IPv6 prefix has at most 128 bits", ipv6)
	}
	if key := path + ".ipv4_max_length"; ipv4 > 32 && !d.wrong["import.ipv4_max_length"] {
		d.report(key, "`ipv4_max_length` is %d: an IPv4 prefix has at most 32 bits", ipv4)
	}
}

func (c peerChecker) maxPrefix(m MaxPrefix, path, owner string) {
	if m.MaxPrefixes == 0 {
		c.report(path+".max_prefixes", "`max_prefixes` is 0: no route of %s would be taken", owner)
	}
	if m.MaxPrefixesWarning > 100 {
		c.report(path+".max_prefixes_warning", "`max_prefixes_warning` is %d: it is a share of `max_prefixes`, at most 100 percent",
			m.MaxPrefixesWarning)
	}
	key := path + ".max_prefixes_restart"
	if m.MaxPrefixesRestart != 0 && m.MaxPrefixesAction != MaxPrefixTeardown {
		c.report(key, "`max_prefixes_restart` is for `max_prefixes_action = \"teardown\"`, which ends the session; %s has %q",
			owner, m.MaxPrefixesAction)
	} else if m.MaxPrefixesRestart != 0 {
		c.atLeast(key, m.MaxPrefixesRestart, time.Second)
	}
}

// role checks the role of RFC 9234. GoBGP cannot send it, and so has only its rules for
// routes.
func (c peerChecker) role(p *Peer, path, owner string) {
	if p.StrictRole && p.LocalRole == RoleNone {
		c.report(path+".strict_role", "`strict_role` of %s needs a `local_role`", owner)
	}
	if p.StrictRole && (p.Passive || c.border.Router.BestPaths) {
		c.report(path+".strict_role", "`strict_role` of %s needs a session that the agent opens: take out `passive` "+
			"and `router.best_paths`", owner)
	}
}

func (d *decoder) checkCaches(caches []RPKICache) {
	names, addresses := newUnique[string]("name"), newUnique[netip.AddrPort]("address")
	for i, c := range caches {
		path := fmt.Sprintf("rpki_cache[%d]", i)
		owner := named(path, c.Name)
		d.checkName(path+".name", c.Name, "a name for logs and the API")
		names.add(d, path+".name", ordinal(path), c.Name)
		d.need(path+".address", "the cache's address")
		if d.usable(path + ".address") {
			if c.Address.IsUnspecified() || c.Address.IsMulticast() {
				d.report(path+".address", "`address` is %s, which is nobody's", c.Address)
			}
			addresses.add(d, path+".address", owner, netip.AddrPortFrom(c.Address, c.Port))
		}
		if c.Port == 0 {
			d.report(path+".port", "`port` is 0: that of RPKI-to-Router is 323")
		}
		if local := path + ".local_address"; d.usable(local) && c.LocalAddress.Is4() != c.Address.Is4() {
			d.report(local, "`local_address` is %s, but %s is %s: both must be %s",
				c.LocalAddress, owner, c.Address, familyName(c.Address))
		}
		d.checkIntervals(path, c)
	}
}

// checkIntervals checks those of RFC 8210 §6, with its ranges.
func (d *decoder) checkIntervals(path string, c RPKICache) {
	for _, interval := range []struct {
		name        string
		value       time.Duration
		least, most time.Duration
	}{
		{"refresh", c.Refresh, time.Second, 24 * time.Hour},
		{"retry", c.Retry, time.Second, 2 * time.Hour},
		{"expire", c.Expire, 10 * time.Minute, 48 * time.Hour},
	} {
		if key := path + "." + interval.name; !d.wrong[key] && (interval.value < interval.least || interval.value > interval.most) {
			d.report(key, "`%s` is %s: it must be %s to %s (RFC 8210 §6)", interval.name, interval.value, interval.least, interval.most)
		}
	}
	if key := path + ".expire"; !d.wrong[key] && c.Expire <= max(c.Refresh, c.Retry) {
		d.report(key, "`expire` is %s: it must be longer than `refresh` and `retry` (RFC 8210 §6)", c.Expire)
	}
}
