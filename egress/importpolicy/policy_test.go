package importpolicy

import (
	"encoding/binary"
	"net/netip"
	"strings"
	"testing"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"hikyaku/egress/config"
	"hikyaku/egress/rpki"
	"hikyaku/egress/speaker"
	"hikyaku/egress/speaker/wire"
)

const borderTOML = `
role = "border"
asn = 64500
router_id = "192.0.2.1"
[srv6]
locator = "2a00:b1::/48"
interfaces = ["eth0"]
[import]
refuse = ["2a00:500::/32", "193.0.2.0/24"]
%import%
[[reflector]]
name = "rr"
address = "2001:db8::53"
[[peer]]
name = "a"
number = 1
address = "2001:db8:a::1"
asn = 64601
%peer%
`

// policyOf is the policy of a border's configuration with lines added to both sections.
func policyOf(t *testing.T, imports, peer string) *Policy {
	t.Helper()
	text := strings.NewReplacer("%import%", imports, "%peer%", peer).Replace(borderTOML)
	file, err := config.Parse("border.toml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return New(file.Border, &file.Border.Peers[0])
}

// received are attributes as a peer announces them.
func received() speaker.Attributes {
	return speaker.Attributes{ASPath: speaker.NewASPath(64601, 64700, 64800)}
}

func (p *Policy) verdict(prefix string, a speaker.Attributes, vrps *rpki.Table) Verdict {
	return p.Judge(netip.MustParsePrefix(prefix), p.Attributes(&a), vrps)
}

func TestPrefixes(t *testing.T) {
	plain := policyOf(t, "", "")
	for _, c := range []struct {
		name, prefix string
		want         Reason
	}{
		{"another's prefix", "2a00:501::/32", Accepted},
		{"an own prefix", "2a00:500::/32", PrefixList},
		{"within an own prefix", "2a00:500:1::/48", PrefixList},
		{"a shorter one that holds an own prefix", "2a00::/16", Accepted},
		{"the locator", "2a00:b1::/48", PrefixList},
		{"longest IPv6", "2a00:501:1::/48", Accepted},
		{"too long IPv6", "2a00:501:1::/49", MaxLength},
		{"longest IPv4", "193.51.100.0/24", Accepted},
		{"too long IPv4", "193.51.100.0/25", MaxLength},
		{"an own IPv4 prefix", "193.0.2.0/24", PrefixList},
		{"a default route", "::/0", DefaultRoute},
		{"an IPv4 default route", "0.0.0.0/0", DefaultRoute},
		{"RFC 1918", "10.0.0.0/8", Martian},
		{"within RFC 1918", "172.31.1.0/24", Martian},
		{"beside RFC 1918", "172.32.0.0/16", Accepted},
		{"RFC 6598", "100.64.0.0/10", Martian},
		{"IPv4 multicast", "232.0.0.0/8", Martian},
		{"reserved IPv4", "240.0.0.0/8", Martian},
		{"IPv4 documentation", "203.0.113.0/24", Martian},
		{"IPv6 documentation", "2001:db8:1::/48", Martian},
		{"newer IPv6 documentation", "3fff:1::/32", Martian},
		{"unique local", "fd00::/8", Martian},
		{"link-local", "fe80::/10", Martian},
		{"IPv6 multicast", "ff00::/8", Martian},
		{"mapped IPv4", "::ffff:0:0/96", Martian},
		{"NAT64", "64:ff9b::/96", Martian},
		{"outside of global unicast", "4000::/3", Martian},
		{"6to4 itself", "2002::/16", Accepted},
		{"a part of 6to4", "2002:c000::/24", Martian},
		{"Teredo itself", "2001::/32", Accepted},
	} {
		if got := plain.verdict(c.prefix, received(), nil).Reason(); got != c.want {
			t.Errorf("%s: %s is %s, want %s", c.name, c.prefix, got, c.want)
		}
	}
	lax := policyOf(t, "martians = true\ndefault_route = true\nipv4_max_length = 28", "")
	for _, prefix := range []string{"10.0.0.0/8", "2001:db8:1::/48", "::/0", "0.0.0.0/0", "193.51.100.0/28"} {
		if got := lax.verdict(prefix, received(), nil).Reason(); got != Accepted {
			t.Errorf("%s is %s though the configuration takes it", prefix, got)
		}
	}
}

func segment(kind byte, numbers ...uint32) bgp.AsPathParamInterface {
	return bgp.NewAs4PathParam(kind, numbers)
}

func pathOf(segments ...bgp.AsPathParamInterface) speaker.ASPath {
	return wire.AttributesFromGoBGP([]bgp.PathAttributeInterface{bgp.NewPathAttributeAsPath(segments)}).ASPath
}

func TestASPaths(t *testing.T) {
	const sequence, set = bgp.BGP_ASPATH_ATTR_TYPE_SEQ, bgp.BGP_ASPATH_ATTR_TYPE_SET
	lists := `import.accept_as_paths = ["_64800$", "^64601 64700"]
import.refuse_as_paths = ["_666_"]`
	for _, c := range []struct {
		name, imports, peer string
		path                speaker.ASPath
		want                Reason
	}{
		{"as it shall be", "", "", pathOf(segment(sequence, 64601, 1, 2)), Accepted},
		{"another first AS", "", "", pathOf(segment(sequence, 64602, 64601)), FirstAS},
		{"an empty path", "", "", pathOf(), FirstAS},
		{"another first AS by a route server", "", `enforce_first_as = "off"`, pathOf(segment(sequence, 64602)), Accepted},
		{"another first AS to its client", "", `local_role = "rs-client"`, pathOf(segment(sequence, 64602)), Accepted},
		{"the same where it is enforced", "", "local_role = \"rs-client\"\nenforce_first_as = \"on\"", pathOf(segment(sequence, 64602)), FirstAS},
		{"RFC 9774: a set", "", "", pathOf(segment(sequence, 64601), segment(set, 1, 2)), ASSet},
		{"RFC 9774: a set that is taken", "as_sets = true", "", pathOf(segment(sequence, 64601), segment(set, 1, 2)), Accepted},
		{"a set in front", "as_sets = true", "", pathOf(segment(set, 64601), segment(sequence, 1)), FirstAS},
		{"the origin that is accepted", "", lists, pathOf(segment(sequence, 64601, 64800)), Accepted},
		{"another origin", "", lists, pathOf(segment(sequence, 64601, 164800)), ASPathList},
		{"a longer origin", "", lists, pathOf(segment(sequence, 64601, 648001)), ASPathList},
		{"another accepted one", "", lists, pathOf(segment(sequence, 64601, 64700, 5)), Accepted},
		{"refused in spite of that", "", lists, pathOf(segment(sequence, 64601, 666, 64800)), ASPathList},
		{"in a set", "as_sets = true", lists, pathOf(segment(sequence, 64601), segment(set, 666, 1), segment(sequence, 64800)), ASPathList},
	} {
		a := speaker.Attributes{ASPath: c.path}
		if got := policyOf(t, c.imports, c.peer).verdict("2a00:501::/32", a, nil).Reason(); got != c.want {
			t.Errorf("%s: %q is %s, want %s", c.name, c.path, got, c.want)
		}
	}
}

func TestPrefixLists(t *testing.T) {
	policy := policyOf(t, "", `import.accept_prefixes = ["2a00:501::/32 le 40", "2a00:502::/32", "2a00:501:8000::/33 ge 44", "193.0.0.0/8 ge 16 le 20"]
import.refuse_prefixes = ["2a00:501:ff00::/40 le 48"]`)
	for prefix, want := range map[string]Reason{
		"2a00:501::/32": Accepted, "2a00:501::/40": Accepted, "2a00:501::/41": PrefixList, "2a00:502::/32": Accepted,
		"2a00:502::/33": PrefixList, "2a00:501:8000::/44": Accepted, "2a00:501:8000::/48": Accepted, "2a00:501:8000::/43": PrefixList,
		"2a00:501:ff00::/40": PrefixList, "2a00:501:ff01::/48": PrefixList, "2a00:503::/32": PrefixList,
		"193.1.0.0/16": Accepted, "193.1.0.0/20": Accepted, "193.0.0.0/15": PrefixList, "193.1.0.0/21": PrefixList, "194.0.0.0/16": PrefixList,
	} {
		if got := policy.verdict(prefix, received(), nil).Reason(); got != want {
			t.Errorf("%s is %s, want %s", prefix, got, want)
		}
	}
}

func TestCommunities(t *testing.T) {
	extended := func(kind ...byte) speaker.ExtendedCommunity { return speaker.ExtendedCommunity(kind) }
	target := extended(0, 2, 0xfc, 0x59, 0, 0, 0, 7)                                            // rt:64601:7
	wide := extended(2, 2, 0, 1, 0x11, 0x70, 0, 7)                                              // rt:70000:7
	origin := extended(1, 3, 192, 0, 2, 1, 0, 9)                                                // soo:192.0.2.1:9
	opaque := speaker.ExtendedCommunity(binary.BigEndian.AppendUint64(nil, 0x0300000000000001)) // by its bytes
	for _, c := range []struct {
		name, list string
		a          speaker.Attributes
		want       Reason
	}{
		{"none where one is asked for", `accept_communities = ["64601:1"]`, received(), CommunityList},
		{"one that is accepted", `accept_communities = ["64601:1"]`, received().WithCommunities(5, 64601<<16|1), Accepted},
		{"any of an AS", `refuse_communities = ["64601:*"]`, received().WithCommunities(64601<<16 | 99), CommunityList},
		{"another AS", `refuse_communities = ["64601:*"]`, received().WithCommunities(64602<<16 | 99), Accepted},
		{"a large one", `refuse_communities = ["64601:*:2"]`, received().WithLargeCommunities(speaker.LargeCommunity{64601, 1, 2}), CommunityList},
		{"another large one", `refuse_communities = ["64601:*:2"]`, received().WithLargeCommunities(speaker.LargeCommunity{64601, 1, 3}), Accepted},
		{"a target", `refuse_communities = ["rt:64601:7"]`, received().WithExtendedCommunities(target), CommunityList},
		{"a target of a large AS", `refuse_communities = ["rt:70000:7"]`, received().WithExtendedCommunities(target, wide), CommunityList},
		{"another number", `refuse_communities = ["rt:64601:8"]`, received().WithExtendedCommunities(target, wide), Accepted},
		{"an origin", `refuse_communities = ["soo:192.0.2.1:*"]`, received().WithExtendedCommunities(origin), CommunityList},
		{"a target is no origin", `refuse_communities = ["soo:64601:*"]`, received().WithExtendedCommunities(target), Accepted},
		{"by bytes", `refuse_communities = ["0x0300000000000001"]`, received().WithExtendedCommunities(opaque), CommunityList},
	} {
		if got := policyOf(t, "", "import."+c.list).verdict("2a00:501::/32", c.a, nil).Reason(); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestRouteLeaks(t *testing.T) {
	otc := func(as uint32) speaker.Attributes {
		a := received()
		a.HasOTC, a.OTC = true, as
		return a
	}
	for _, c := range []struct {
		role string
		a    speaker.Attributes
		want Reason
	}{
		{"none", otc(1), Accepted},
		{"customer", otc(1), Accepted}, {"customer", otc(64601), Accepted}, {"customer", received(), Accepted},
		{"rs-client", otc(1), Accepted},
		{"provider", otc(64601), RouteLeak}, {"provider", received(), Accepted},
		{"rs", otc(64601), RouteLeak}, {"rs", received(), Accepted},
		{"peer", otc(1), RouteLeak}, {"peer", otc(64601), Accepted}, {"peer", received(), Accepted},
	} {
		if got := policyOf(t, "", `local_role = "`+c.role+`"`).verdict("2a00:501::/32", c.a, nil).Reason(); got != c.want {
			t.Errorf("as %s, OTC %t of AS %d: %s, want %s", c.role, c.a.HasOTC, c.a.OTC, got, c.want)
		}
	}
}

func TestOrigins(t *testing.T) {
	vrp, err := rpki.NewVRP(netip.MustParsePrefix("2a00:501::/32"), 40, 64800)
	if err != nil {
		t.Fatal(err)
	}
	vrps := rpki.NewTable([]rpki.VRP{vrp})
	other := speaker.Attributes{ASPath: speaker.NewASPath(64601, 64801)}
	for _, c := range []struct {
		name, imports, peer, prefix string
		a                           speaker.Attributes
		vrps                        *rpki.Table
		want                        Verdict
	}{
		{"valid", "", "", "2a00:501::/32", received(), vrps, NewVerdict(Accepted, rpki.Valid)},
		{"not found", "", "", "2a00:502::/32", received(), vrps, NewVerdict(Accepted, rpki.NotFound)},
		{"too long", "", "", "2a00:501::/41", received(), vrps, NewVerdict(RPKIInvalid, rpki.Invalid)},
		{"another origin", "", "", "2a00:501::/32", other, vrps, NewVerdict(RPKIInvalid, rpki.Invalid)},
		{"taken from all", "rpki_invalid = true", "", "2a00:501::/32", other, vrps, NewVerdict(Accepted, rpki.Invalid)},
		{"taken from this peer", "", "import.rpki_invalid = true", "2a00:501::/32", other, vrps, NewVerdict(Accepted, rpki.Invalid)},
		{"without a cache", "", "", "2a00:501::/32", other, nil, NewVerdict(Accepted, rpki.Unchecked)},
		{"refused anyway", "", "", "10.0.0.0/8", received(), vrps, NewVerdict(Martian, rpki.Unchecked)},
	} {
		if got := policyOf(t, c.imports, c.peer).verdict(c.prefix, c.a, c.vrps); got != c.want {
			t.Errorf("%s: %s %s, want %s %s", c.name, got.Reason(), got.Origin(), c.want.Reason(), c.want.Origin())
		}
	}
}

func TestVerdictsFitIntoAByte(t *testing.T) {
	for _, reason := range append(Reasons(), Accepted) {
		for _, origin := range []rpki.State{rpki.Unchecked, rpki.NotFound, rpki.Valid, rpki.Invalid} {
			if v := NewVerdict(reason, origin); v.Reason() != reason || v.Origin() != origin || reason.String() == "" {
				t.Errorf("%s %s became %s %s", reason, origin, v.Reason(), v.Origin())
			}
		}
	}
}
