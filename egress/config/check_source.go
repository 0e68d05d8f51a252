package config

import (
	"fmt"
	"time"
)

func (d *decoder) checkBMP(b BMP) {
	for i, address := range b.Listen {
		if key := fmt.Sprintf("bmp.listen[%d]", i); !d.wrong[key] && !address.IsValid() {
			d.report(key, "`listen` has an empty entry: it needs an address and a port, such as \"[2001:db8::b1]:11019\"")
		}
	}
	if len(b.Listen) > 0 && len(b.Routers) == 0 && !d.wrong["bmp.routers"] {
		d.report("bmp.routers", "`routers` is missing: name the addresses that BMP routers connect from")
	}
	d.atLeast("bmp.dead_time", b.DeadTime, 3*time.Second)
}

// checkAddPath checks the sessions with routers that send the routes of their peers.
func (d *decoder) checkAddPath(b *Border, sessions sessionChecker) {
	for i := range b.AddPath {
		path := fmt.Sprintf("add_path[%d]", i)
		sessions.session(&b.AddPath[i].Session, path)
		if b.AddPath[i].Passive {
			d.report(path+".passive", "`passive` is for sessions without ADD-PATH: have the agent connect to %s", named(path, b.AddPath[i].Name))
		}
		if !d.wrong["srv6.locator"] {
			d.outsideLocator(&b.AddPath[i].Session, path, b.SRv6.Locator)
		}
	}
}

// source checks where a peer's routes come from.
func (c peerChecker) source(p *Peer, path, owner string) {
	switch p.Routes {
	case RoutesByBMP:
		if len(c.border.BMP.Listen) == 0 && !c.wrong["bmp.listen"] {
			c.report(path+".routes", "%s has its routes by BMP, but `bmp.listen` has no address to wait for routers on", owner)
		}
		c.elsewhere(path, owner, "by BMP")
	case RoutesByAddPath:
		if len(c.border.AddPath) == 0 && !c.wrong["add_path"] {
			c.report(path+".routes", "%s has its routes by ADD-PATH, but there is no [[add_path]] that sends them", owner)
		}
		c.elsewhere(path, owner, "by ADD-PATH")
		c.match(p, path, owner)
	}
}

// elsewhere checks a peer that the agent has no session with.
func (c peerChecker) elsewhere(path, owner, how string) {
	if c.border.Router.BestPaths {
		c.report(path+".routes", "%s has its routes %s, which `router.best_paths` does not see: "+
			"leave the main table to the router that has the session", owner, how)
	}
	for _, name := range []string{"port", "local_address", "passive", "password_file", "hold_time", "ttl_security", "strict_role"} {
		if c.given(path + "." + name) {
			c.report(path+"."+name, "`%s` is for a session, and the agent has none with %s, whose routes come %s", name, owner, how)
		}
	}
}

// match checks what shows that a route is the peer's. The same must not show two.
func (c peerChecker) match(p *Peer, path, owner string) {
	key := path + ".add_path.next_hops"
	for i, hop := range p.AddPath.NextHops {
		at := fmt.Sprintf("%s[%d]", key, i)
		if c.wrong[at] {
			continue
		}
		if hop.IsUnspecified() || hop.IsMulticast() || hop.Zone() != "" {
			c.report(at, "`next_hops` has %s: it needs addresses of the peer, as routes have them", hop)
			continue
		}
		if len(p.AddPath.Communities) == 0 {
			c.hops.add(c.decoder, keyOfHops(c.decoder, path), owner, hop)
		}
	}
	for i, community := range p.AddPath.Communities {
		c.marks.add(c.decoder, fmt.Sprintf("%s.add_path.communities[%d]", path, i), owner, community)
	}
}

// keyOfHops is the key that a peer's next hops are from.
func keyOfHops(d *decoder, path string) string {
	if key := path + ".add_path.next_hops"; d.given(key) {
		return key
	}
	return path + ".address"
}
