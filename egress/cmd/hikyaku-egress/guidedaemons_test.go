package main_test

import (
	"fmt"
)

// ownFRR is the border's FRR, with its kernel routes.
func ownFRR(l *guideLab, _ guide, _ string) (restart func()) {
	l.border.write("/etc/frr.conf", `router bgp 64500
 bgp router-id 192.0.2.2
 no bgp ebgp-requires-policy
 no bgp default ipv4-unicast
 neighbor 2001:db8:a::1 remote-as 64496
 neighbor 2001:db8:a::1 timers connect 1
 neighbor 2001:db8:b::1 remote-as 64497
 neighbor 2001:db8:b::1 timers connect 1
 address-family ipv6 unicast
  neighbor 2001:db8:a::1 activate
  neighbor 2001:db8:b::1 activate
 exit-address-family
`)
	return startFRR(l, l.border)
}

// startFRR starts zebra and bgpd of a machine, and returns a function that starts bgpd anew.
func startFRR(l *guideLab, m *machine) (restart func()) {
	m.start("zebra -f /dev/null -P 0 -i /run/frr/zebra.pid")
	l.eventually("zebra runs", func() bool { return m.try("test -S /run/frr/zserv.api") == nil })
	const bgpd = "bgpd -S -f /etc/frr.conf -P 0 -i /run/frr/bgpd.pid"
	running := m.start(bgpd)
	return func() {
		m.kill(running)
		running = m.start(bgpd)
	}
}

// ownBIRD is the border's BIRD, with the guide's session with transit A.
func ownBIRD(l *guideLab, _ guide, transitA string) (restart func()) {
	l.border.write("/etc/bird.conf", fmt.Sprintf(`router id 192.0.2.2;
protocol device { scan time 2; }
protocol kernel { ipv6 { import none; export all; }; }
%s
protocol bgp transit_b {
    local 2001:db8:b::2 as 64500;
    neighbor 2001:db8:b::1 as 64497;
    ipv6 { import all; export none; };
}
`, transitA))
	running := startBIRD(l.border)
	return func() {
		l.border.kill(running)
		running = startBIRD(l.border)
	}
}

// transitFRR is a transit that opens sessions itself with each address of the border.
func transitFRR(l *guideLab, n int) {
	net, neighbours := transitNumbers(n)
	activate := ""
	conf := fmt.Sprintf("router bgp %d\n bgp router-id 198.51.100.%d\n no bgp ebgp-requires-policy\n no bgp default ipv4-unicast\n no bgp network import-check\n", 64496+n, n+1)
	for _, last := range neighbours {
		conf += fmt.Sprintf(" neighbor %[1]s%[2]d remote-as 64500\n neighbor %[1]s%[2]d timers connect 1\n", net, last)
		activate += fmt.Sprintf("  neighbor %[1]s%[2]d activate\n  neighbor %[1]s%[2]d route-map OUT out\n", net, last)
	}
	conf += " address-family ipv6 unicast\n  network 2001:db9::/32\n" + activate + " exit-address-family\nroute-map OUT permit 10\n"
	if n == 0 {
		conf += " set as-path prepend 64496 64496\n"
	}
	m := l.transits[n]
	m.write("/etc/frr.conf", conf)
	m.start("bgpd -Z -S -f /etc/frr.conf -P 0 -i /run/frr/bgpd.pid")
}

func transitNumbers(n int) (net string, neighbours []int) {
	if n == 0 {
		return "2001:db8:a::", []int{2, 3}
	}
	return "2001:db8:b::", []int{2}
}

// transitBIRD is the same as transitFRR.
func transitBIRD(l *guideLab, n int) {
	net, neighbours := transitNumbers(n)
	prepend := ""
	if n == 0 {
		prepend = "bgp_path.prepend(64496); bgp_path.prepend(64496); "
	}
	conf := fmt.Sprintf("router id 198.51.100.%d;\nprotocol device { }\nprotocol static { ipv6; route 2001:db9::/32 unreachable; }\n", n+1)
	for _, last := range neighbours {
		conf += fmt.Sprintf("protocol bgp b%[1]d { local %[2]s1 as %[3]d; neighbor %[2]s%[1]d as 64500; connect retry time 1; error wait time 1,2; ipv6 { import all; export filter { %[4]saccept; }; }; }\n",
			last, net, 64496+n, prepend)
	}
	m := l.transits[n]
	m.write("/etc/bird.conf", conf)
	startBIRD(m)
}

func reflectorFRR(l *guideLab, g guide) {
	l.reflector.write("/etc/frr.conf", g.sample("4.", "frr", "bgp listen range"))
	startFRR(l, l.reflector)
}

func reflectorBIRD(l *guideLab, g guide) {
	l.reflector.write("/etc/bird.conf", g.sample("4.", "bird", "rr client"))
	startBIRD(l.reflector)
}

func reflectorGoBGP(l *guideLab, g guide) {
	l.reflector.write("/etc/gobgp.toml", g.sample("4.", "gobgp", "route-reflector-client"))
	l.reflector.start("gobgpd -f /etc/gobgp.toml --pprof-disable --api-hosts 127.0.0.1:50051")
}

func startBIRD(m *machine) *daemonProcess {
	return m.start("bird -f -c /etc/bird.conf -s /run/bird/bird.ctl")
}
