package config

import (
	"errors"
	"strings"
	"testing"
)

// badCase is a good file with one edit, and all that shall be said of it.
type badCase struct {
	name     string
	old, new string
	// want holds "KEY: MESSAGE" for each problem.
	want []string
}

func runBadCases(t *testing.T, good string, cases []badCase) {
	t.Helper()
	for _, c := range cases {
		if c.old != "" && strings.Count(good, c.old) == 0 {
			t.Fatalf("%s: the good file has no %q", c.name, c.old)
		}
		text := strings.Replace(good, c.old, c.new, 1)
		if c.old == "" {
			text = good + c.new
		}
		got := problemsOf(t, text)
		if strings.Join(got, "\n") != strings.Join(c.want, "\n") {
			t.Errorf("%s:\n got %s\nwant %s", c.name, strings.Join(got, "\n     "), strings.Join(c.want, "\n     "))
		}
	}
}

func problemsOf(t *testing.T, text string) []string {
	t.Helper()
	_, err := Parse("test.toml", []byte(text))
	if err == nil {
		return nil
	}
	var wrong *Errors
	if !errors.As(err, &wrong) {
		t.Fatalf("%v is no *Errors", err)
	}
	var out []string
	for _, problem := range wrong.Problems {
		out = append(out, problem.Key+": "+problem.Message)
	}
	return out
}

func TestGoodFilesAreGood(t *testing.T) {
	runBadCases(t, goodBorder, []badCase{{name: "border", old: "asn", new: "asn"}})
	runBadCases(t, goodServer, []badCase{{name: "server", old: "asn", new: "asn"}})
}

func TestWrongValues(t *testing.T) {
	const border = "role = \"border\"\n"
	cases := []badCase{
		{"a number of the wrong kind", "asn = 64500", `asn = "64500"`, []string{
			"asn: `asn` is the string \"64500\"; expected a whole number from 0 to 4294967295"}},
		{"a number that is too large", "asn = 64500", `asn = 4294967296`, []string{
			"asn: `asn`: 4294967296 is out of range; expected a whole number from 0 to 4294967295"}},
		{"a negative number", "asn = 64500", `asn = -1`, []string{
			"asn: `asn`: -1 is out of range; expected a whole number from 0 to 4294967295"}},
		{"a decimal number", "asn = 64500", `asn = 1.5`, []string{
			"asn: `asn` is the decimal number 1.5; expected a whole number from 0 to 4294967295"}},
		{"a date", "asn = 64500", `asn = 2026-01-01`, []string{
			"asn: `asn` is the date or time 2026-01-01; expected a whole number from 0 to 4294967295"}},
		{"a table instead of a value", "asn = 64500", `asn = {}`, []string{
			"asn: `asn` is a table; expected a whole number from 0 to 4294967295"}},
		{"a value instead of a table", border, border + "log = 1\n", []string{
			"log: `log` is the number 1; expected a table, [log]"}},
		{"a table instead of an array of tables", "[[reflector]]", "[reflector]", []string{
			"reflector: `reflector` is a table; expected [[reflector]]"}},
		{"an address that is none", `"2001:db8::53"`, `"2001:db8::5g"`, []string{
			"reflector[0].address: `address`: `2001:db8::5g` is no IPv6 or IPv4 address"}},
		{"an IPv4 address in disguise", `"2001:db8::53"`, `"::ffff:192.0.2.1"`, []string{
			"reflector[0].address: `address`: `::ffff:192.0.2.1` is no IPv6 or IPv4 address"}},
		{"an unknown word", "", "[log]\nlevel = 'trace'\n", []string{
			"log.level: `level`: \"trace\" is unknown; expected one of \"error\", \"warn\", \"info\", \"debug\""}},
		{"a boolean in quotes", "", "[import]\ndefault_route = 'yes'\n", []string{
			"import.default_route: `default_route` is the string \"yes\"; expected true or false"}},
		{"a string instead of an array", `["eth0"]`, `"eth0"`, []string{
			"srv6.interfaces: `interfaces` is the string \"eth0\"; expected an array"}},
		{"a wrong item of an array", `["eth0"]`, `["eth0", 1]`, []string{
			"srv6.interfaces[1]: `interfaces` is the number 1; expected a string"}},
		{"a duration without unit", "", "[bgp]\nhold_time = '90'\n", []string{
			"bgp.hold_time: `hold_time`: reading a duration from `90`: the unit is missing; expected " + durationForm}},
		{"a duration of an unknown unit", "", "[bgp]\nhold_time = '90 s'\n", []string{
			"bgp.hold_time: `hold_time`: reading a duration from `90 s`: not a decimal number with a unit; expected " + durationForm}},
		{"an endless duration", "", "[bgp]\nstale_time = '40000d'\n", []string{
			"bgp.stale_time: `stale_time`: reading a duration from `40000d`: too large; expected " + durationForm}},
		{"a mode that is none", "", "[api]\nmode = '0999'\n", []string{
			"api.mode: `mode`: `0999` is no mode; expected three octal digits, such as `0660`"}},
		{"a mode as a number", "", "[api]\nmode = 0o660\n", []string{
			"api.mode: `mode` is the number 0o660; expected octal digits as a string, such as \"0660\""}},
		{"a listener without port", "", "[api]\nmetrics = '127.0.0.1'\n", []string{
			"api.metrics: `metrics`: `127.0.0.1` is no ADDRESS:PORT such as 127.0.0.1:9100"}},
		{"tables in the wrong order", "", "[kernel]\ntables = '20-10'\n", []string{
			"kernel.tables: `tables`: `20-10` is no range of tables; expected FIRST-LAST, such as `10000-10999`"}},
		{"a community of one number", "asn = 64496", "asn = 64496\ncommunities = ['64500']", []string{
			"peer[0].communities[0]: `communities`: reading a community from `64500`: expected two numbers up to 65535 " +
				"such as `64500:100`, or three up to 4294967295 such as `64500:1:2`"}},
		{"a route distinguisher that is none", "asn = 64496", "asn = 64496\nrd = '7'", []string{
			"peer[0].rd: `rd`: route distinguisher \"7\": must be ADDRESS:NUMBER or AS:NUMBER"}},
		{"an output that is empty", "", "[flows]\ncsv = ''\n", []string{
			"flows.csv: `csv`: nothing is named; expected \"off\", \"stdout\" or a file"}},
	}
	runBadCases(t, goodBorder, cases)
}

func TestUnknownKeys(t *testing.T) {
	runBadCases(t, goodBorder, []badCase{
		{"at the top", "asn = 64500", "asn = 64500\nas = 1", []string{
			"as: unknown key `as`, expected one of `role`, `asn`, `router_id`, `bgp`, `reflector`, `api`, `state`, " +
				"`log`, `flows`, `router`, `srv6`, `kernel`, `import`, `rpki_cache`, `bmp`, `add_path`, `peer`, `port`"}},
		{"in a table", "", "[log]\nlevle = 'info'\n", []string{
			"log.levle: unknown key `levle` in [log], expected one of `level`, `format`"}},
		{"in an array of tables", `name = "rr1"`, `nam = "rr1"`, []string{
			"reflector[0].name: `name` is missing: a name for logs and the API",
			"reflector[0].nam: unknown key `nam` in [[reflector]], expected one of `name`, `address`, `port`, " +
				"`local_address`, `passive`, `password_file`, `hold_time`"}},
		{"a dotted key", "asn = 64500", "asn = 64500\nlog.levle = 1", []string{
			"log.levle: unknown key `levle` in [log], expected one of `level`, `format`"}},
		{"an inline table", "asn = 64500", "asn = 64500\nlog = { levle = 1 }", []string{
			"log.levle: unknown key `levle` in [log], expected one of `level`, `format`"}},
		{"a server's table", "", "[mptcp]\nmode = 'off'\n", []string{
			"mptcp: unknown key `mptcp`, expected one of `role`, `asn`, `router_id`, `bgp`, `reflector`, `api`, `state`, " +
				"`log`, `flows`, `router`, `srv6`, `kernel`, `import`, `rpki_cache`, `bmp`, `add_path`, `peer`, `port`"}},
	})
}

func TestRoles(t *testing.T) {
	runBadCases(t, goodBorder, []badCase{
		{"missing", "role = \"border\"", "", []string{
			"role: `role` is missing: say `role = \"border\"` or `role = \"server\"`"}},
		{"unknown", `"border"`, `"router"`, []string{
			"role: `role`: \"router\" is unknown; expected one of \"border\", \"server\""}},
	})
}
