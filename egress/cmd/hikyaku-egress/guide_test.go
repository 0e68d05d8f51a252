package main_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// guideFile is the operator's guide, whose commands the tests in this file run.
const guideFile = "../../../docs/egress-deploy.md"

// block is a sample of the guide.
type block struct{ section, language, text string }

// guide has the guide's samples in their order.
type guide struct {
	t      *testing.T
	blocks []block
}

func readGuide(t *testing.T) guide {
	t.Helper()
	text, err := os.ReadFile(guideFile)
	if err != nil {
		t.Fatal(err)
	}
	g := guide{t: t}
	for _, section := range strings.Split("\n"+string(text), "\n## ")[1:] {
		title, body, _ := strings.Cut(section, "\n")
		for _, match := range regexp.MustCompile("(?s)```([a-z]+)\n(.*?)```").FindAllStringSubmatch(body, -1) {
			g.blocks = append(g.blocks, block{title, match[1], match[2]})
		}
	}
	return g
}

// sample returns the only block of a language in a section that contains a text.
func (g guide) sample(section, language, contains string) string {
	g.t.Helper()
	var found []string
	for _, b := range g.blocks {
		if strings.HasPrefix(b.section, section) && b.language == language && strings.Contains(b.text, contains) {
			found = append(found, b.text)
		}
	}
	if len(found) != 1 {
		g.t.Fatalf("section %q of the guide has %d blocks of %s with %q, want one", section, len(found), language, contains)
	}
	return found[0]
}

// commands are the lines of a console block that a user types.
func commands(text string) []string {
	var lines []string
	for line := range strings.Lines(text) {
		if command, typed := strings.CutPrefix(strings.TrimSpace(line), "# "); typed {
			lines = append(lines, command)
		}
	}
	return lines
}

// types types the guide's commands on a machine; the agents stay in the foreground of a
// terminal of their own. It returns the output of each.
func (l *guideLab) types(m *machine, text string) map[string]string {
	l.t.Helper()
	out := make(map[string]string)
	for _, line := range commands(text) {
		if role, is := strings.CutPrefix(line, "hikyaku-egress "); is && slices.Contains([]string{"border", "server"}, strings.Fields(role)[0]) {
			m.agent = m.start(line)
			l.eventually("the agent of "+m.ns.Name+" answers", func() bool {
				return m.try("hikyaku-egress paths") == nil
			})
			continue
		}
		out[line] = m.run(line)
	}
	return out
}

func TestGuideWithFRR(t *testing.T) {
	t.Parallel()
	testGuide(t, guideDaemons{own: ownFRR, transit: transitFRR, reflector: reflectorFRR, holder: "bgpd"})
}

func TestGuideWithBIRD(t *testing.T) {
	t.Parallel()
	testGuide(t, guideDaemons{own: ownBIRD, transit: transitBIRD, reflector: reflectorBIRD, holder: "bird"})
}

func TestGuideWithGoBGPAsReflector(t *testing.T) {
	t.Parallel()
	testGuide(t, guideDaemons{own: ownFRR, transit: transitBIRD, reflector: reflectorGoBGP, holder: "bgpd"})
}

// testGuide does what the guide says, with its own commands and samples, on machines that
// have its addresses. The border has a daemon with sessions of its own.
func testGuide(t *testing.T, d guideDaemons) {
	l := newGuideLab(t, d)
	g := readGuide(t)
	const border, server = "5. Start the first border", "6. Start one content server"

	// 2 to 4: the domain, the locator, the reflector.
	l.border.write("/etc/domain.nft", g.sample("2.", "nft", "srv6_domain"))
	l.border.run("nft -f /etc/domain.nft")
	l.types(l.core, g.sample("3.", "console", "2001:db8:b1::/48"))
	d.reflector(l, g)

	// 5: the border, beside its present routing.
	l.border.write("/etc/hikyaku/egress-border.toml", g.sample(border, "toml", "role"))
	l.border.write("/etc/sessions.nft", g.sample(border, "nft", "egress_sessions"))
	l.border.run("nft -f /etc/sessions.nft")
	l.restartOwn = d.own(l, g, g.sample(border, "bird", "transit_a"))
	l.eventually("the present daemon has both sessions", func() bool { return l.holds(d.holder, "2001:db8:a::2", "2001:db8:b::2") })
	for line, out := range l.types(l.border, g.sample(border, "console", "addr add")) {
		if strings.Contains(line, "route get") && !strings.Contains(out, "src 2001:db8:a::2") {
			t.Errorf("after the second address, `%s` shows\n%s", line, out)
		}
	}
	l.types(l.border, g.sample(border, "console", "hikyaku-egress border"))
	l.eventually("the agent has the second session", func() bool { return l.holds("hikyaku-egress", "2001:db8:a::3") })
	l.eventually("the SID is open", func() bool {
		return strings.Contains(l.border.run("ip -6 route show table 10001 proto 200 | head"), "2001:db9::/32")
	})

	// The present daemon starts anew, as after an upgrade, and all sessions are as before.
	l.restartOwn()
	l.eventually("the present daemon has both sessions again", func() bool { return l.holds(d.holder, "2001:db8:a::2", "2001:db8:b::2") })
	l.eventually("the border's plain way is by transit B again", func() bool {
		return strings.Contains(l.border.run("ip -6 route get 2001:db9::7 || true"), "dev eth2")
	})
	if !l.holds("hikyaku-egress", "2001:db8:a::3") || l.holds(d.holder, "2001:db8:a::3") {
		t.Errorf("after a restart of the present daemon the sessions are\n%s", l.border.run("ss -Htnp"))
	}
	l.border.run("hikyaku-egress check --config /etc/hikyaku/egress-border.toml")

	// 6: the server.
	l.server.write("/etc/hikyaku/egress-server.toml", g.sample(server, "toml", "role"))
	l.types(l.server, g.sample(server, "console", "hikyaku-egress server"))
	l.eventually("the server has the path", func() bool {
		return strings.Contains(l.server.run("ip -6 route get 2001:db9::7 from 2001:db8:5::a1 || true"), "encap seg6")
	})
	before := l.through()
	out := l.types(l.server, g.sample(server, "console", "curl"))
	for line, text := range out {
		words, _, _ := strings.Cut(line, "#")
		switch words = strings.TrimSpace(words); {
		case strings.HasSuffix(words, "from 2001:db8:5::a1"), strings.HasSuffix(words, "mark 0x680001"):
			if !strings.Contains(text, "encap seg6") || !strings.Contains(text, "2001:db8:b1:1::") {
				t.Errorf("`%s` shows\n%s", words, text)
			}
		case words == "ip -6 route get 2001:db9::7":
			if strings.Contains(text, "encap") {
				t.Errorf("`%s` is no longer plain:\n%s", words, text)
			}
		case strings.HasPrefix(words, "curl") && text != "from the client\n":
			t.Errorf("`%s` shows %q", words, text)
		}
	}
	if after := l.through(); after[0] == before[0] || after[1] != before[1] {
		t.Errorf("from the EPE address, packets over transits A and B were %v and are %v", before, after)
	}
	before = l.through()
	l.server.run("curl https://[2001:db9::7]/")
	if after := l.through(); after[0] != before[0] || after[1] == before[1] {
		t.Errorf("on the plain way, packets over transits A and B were %v and are %v", before, after)
	}
	l.takeOut(g)
}

// takeOut removes by hand what a killed agent has left, as the guide says.
func (l *guideLab) takeOut(g guide) {
	l.t.Helper()
	l.server.kill(l.server.agent)
	l.server.run(g.sample("Take it out again", "sh", "ip -6 rule flush"))
	for _, command := range []string{"ip -6 rule", "ip -4 rule", "ip nexthop", "ip -6 route show table all", "ip link", "ip -6 addr"} {
		for line := range strings.Lines(l.server.run(command)) {
			if strings.Contains(line, "proto 200") || strings.Contains(line, "hikyaku") || strings.Contains(line, "::a1") {
				l.t.Errorf("the guide's last commands leave in `%s`: %s", command, line)
			}
		}
	}
}
