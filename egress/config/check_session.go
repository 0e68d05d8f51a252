package config

import (
	"fmt"
	"net/netip"
	"regexp"
)

// sessionChecker checks what the sessions of a file must be to each other.
type sessionChecker struct {
	*decoder
	common    *Common
	names     unique[string]
	addresses unique[netip.Addr]
}

func (d *decoder) newSessionChecker(c *Common) sessionChecker {
	return sessionChecker{d, c, newUnique[string]("name"), newUnique[netip.Addr]("address")}
}

// reflectors checks the sessions with route reflectors.
func (s sessionChecker) reflectors() {
	for i := range s.common.Reflectors {
		s.session(&s.common.Reflectors[i].Session, fmt.Sprintf("reflector[%d]", i))
	}
}

func (s sessionChecker) session(session *Session, path string) {
	owner := named(path, session.Name)
	s.checkName(path+".name", session.Name, "a name for logs and the API")
	s.names.add(s.decoder, path+".name", ordinal(path), session.Name)
	s.neighbour(session, path, owner)
	if session.HoldTime != s.common.BGP.HoldTime {
		s.checkHoldTime(path+".hold_time", session.HoldTime)
	}
	if session.Passive && s.usable(path+".address") && !s.wrong["bgp.listen"] && !s.listens(session.Address) {
		s.report(path+".passive", "%s is passive, but `bgp.listen` has no %s address to wait on",
			owner, familyName(session.Address))
	}
	if s.usable(path + ".password_file") {
		if _, err := ReadPassword(session.PasswordFile); err != nil {
			s.report(path+".password_file", "%s", err)
		}
	}
}

func (s sessionChecker) neighbour(session *Session, path, owner string) {
	key := path + ".address"
	s.need(key, "the neighbour's address")
	if !s.usable(key) {
		return
	}
	address := session.Address
	switch {
	case address.IsUnspecified() || address.IsMulticast():
		s.report(key, "`address` is %s, which is nobody's", address)
	case address.Is6() && address.IsLinkLocalUnicast() && address.Zone() == "":
		s.report(key, "`address` is link-local: say on which interface, such as `%s%%eth0`", address)
	}
	s.addresses.add(s.decoder, key, owner, address)
	local := path + ".local_address"
	if s.usable(local) && session.LocalAddress.Is4() != address.Is4() {
		s.report(local, "`local_address` is %s, but %s is %s: both must be %s",
			session.LocalAddress, owner, address, familyName(address))
	}
}

// listens reports whether a neighbour of this address could connect to us.
func (s sessionChecker) listens(neighbour netip.Addr) bool {
	for _, address := range s.common.BGP.Listen {
		// Linux takes IPv4 on [::], too.
		if address.Is4() == neighbour.Is4() || address == netip.IPv6Unspecified() {
			return true
		}
	}
	return false
}

var validName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

func (d *decoder) checkName(key, name, why string) {
	d.need(key, why)
	if d.usable(key) && !validName.MatchString(name) {
		d.report(key, "`name` is `%s`: it must be 1 to 64 letters, digits, `.`, `_` and `-`, and begin with a letter or digit", name)
	}
}

// named says which entry of a list is meant: by name, or where it has none by
// its place.
func named(path, name string) string {
	if name == "" {
		return ordinal(path)
	}
	return "`" + name + "`"
}

// ordinal turns "peer[0]" into "[[peer]] 1".
func ordinal(path string) string {
	var i int
	fmt.Sscanf(path[len(leaf(path)):], "[%d]", &i)
	return fmt.Sprintf("[[%s]] %d", leaf(path), i+1)
}

func familyName(address netip.Addr) string {
	if address.Is4() {
		return "IPv4"
	}
	return "IPv6"
}
