package api

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"
)

func TestAnswers(t *testing.T) {
	s := serve(t)
	policy := `{"mode": "steered", "clients": ["2001:db9::/32"], "asns": [64999, 4294967295], "classes": ["bulk"], "paths": ["transit-a"], "backup": ["transit-a"], "order": -1}`
	const subflow = `{"local": "[2001:db8:5::a1]:443", "remote": "[2001:db9::7]:50002"}`
	cases := []struct {
		name, method, pattern, path, body string
		status                            int
		want                              string // part of the answer
	}{
		{"health", "GET", "/healthz", "", "", 200, "ok\n"},
		{"metrics", "GET", "/metrics", "", "", 200, "up 1\n"},
		{"status", "GET", "/v1/status", "", "", 200, `"router_id":"192.0.2.11"`},
		{"an empty list is no null", "GET", "/v1/status", "", "", 200, `"problems":[]`},
		{"paths", "GET", "/v1/paths", "", "", 200, `"addresses":["2001:db8:5::a1","198.51.100.161"]`},
		{"a path without SID", "GET", "/v1/paths/{name}", "/v1/paths/transit-b", "", 200, `"addresses":[],"backup":false,"table":10002,"mtu":0`},
		{"a path that is not there", "GET", "/v1/paths/{name}", "/v1/paths/transit-c", "", 404, "not found: there is no path `transit-c`"},
		{"drain", "PUT", "/v1/paths/{name}/drain", "/v1/paths/transit-a/drain", `{"reason": "maintenance"}`, 200, `"state":"draining"`},
		{"what is drained says why", "GET", "/v1/paths/{name}", "/v1/paths/transit-a", "", 200, `"drain":{"reason":"maintenance","since":"`},
		{"drain without reason", "PUT", "/v1/paths/{name}/drain", "/v1/paths/transit-a/drain", `{}`, 200, `"drain":{"reason":"","since":"`},
		{"end of drain", "DELETE", "/v1/paths/{name}/drain", "/v1/paths/transit-a/drain", "", 200, `"state":"up"`},
		{"drain of nothing", "PUT", "/v1/paths/{name}/drain", "/v1/paths/x/drain", `{}`, 404, "there is no path `x`"},
		{"sessions", "GET", "/v1/sessions", "", "", 200, `"error":"connection refused"`},
		{"lookup", "GET", "/v1/lookup", "/v1/lookup?client=2001:db9::7", "", 200, `"as_path":[64496,4200000000]`},
		{"lookup in vain", "GET", "/v1/lookup", "/v1/lookup?client=203.0.113.9", "", 200, `{"client":"203.0.113.9/32","paths":[],"policies":[]}`},
		{"lookups", "POST", "/v1/lookup", "", `{"clients": ["2001:db9::7", "203.0.113.9/24"]}`, 200, `{"client":"203.0.113.0/24","paths":[],"policies":[]}`},
		{"lookups of nobody", "POST", "/v1/lookup", "", `{}`, 200, `{"lookups":[]}`},
		{"no policies", "GET", "/v1/policies", "", "", 200, `{"policies":[]}`},
		{"new policy", "PUT", "/v1/policies/{name}", "/v1/policies/p1", policy, 200, `"name":"p1"`},
		{"policies", "GET", "/v1/policies", "", "", 200, `"order":-1`},
		{"policy", "GET", "/v1/policies/{name}", "/v1/policies/p1", "", 200, `"asns":[64999,4294967295],"classes":["bulk"]`},
		{"policy for all", "PUT", "/v1/policies/{name}", "/v1/policies/p2", `{"mode": "plain"}`, 200, `"clients":[],"asns":[],`},
		{"policy removed", "DELETE", "/v1/policies/{name}", "/v1/policies/p1", "", 204, ""},
		{"policy removed again", "DELETE", "/v1/policies/{name}", "/v1/policies/p1", "", 404, "there is no policy `p1`"},
		{"policy is gone", "GET", "/v1/policies/{name}", "/v1/policies/p1", "", 404, "there is no policy `p1`"},
		{"reload", "POST", "/v1/reload", "", "", 200, `{"changes":["peer transit-c is added"]}`},
		{"routes", "GET", "/v1/routes", "", "", 200, `"path":"transit-a","prefix":"2001:db9::/32","state":"used"`},
		{"routes within a prefix", "GET", "/v1/routes", "/v1/routes?within=203.0.113.0/24&limit=5", "", 200, `{"routes":[],"total":2}`},
		{"the first route", "GET", "/v1/routes", "/v1/routes?limit=1", "", 200, `"med":0}],"total":2}`},
		{"too many routes", "GET", "/v1/routes", "/v1/routes?limit=100001", "", 400, "no number from 1 to 100000"},
		{"connections", "GET", "/v1/connections", "/v1/connections?within=2001:db9::/32&limit=5", "", 200, `"client_backup":false}]}],"total":1}`},
		{"connections elsewhere", "GET", "/v1/connections", "/v1/connections?within=203.0.113.0/24", "", 200, `{"connections":[],"total":1}`},
		{"too many connections", "GET", "/v1/connections", "/v1/connections?limit=0", "", 400, "no number from 1 to 100000"},
		{"routes within no prefix", "GET", "/v1/routes", "/v1/routes?within=x", "", 400, "parameter `within`"},
		{"why", "GET", "/v1/why", "/v1/why?client=2001:db9::7", "", 200, `"plain":{"path":"transit-a"`},
		{"why of nothing", "GET", "/v1/why", "", "", 400, "parameter `client`"},
		{"peers", "GET", "/v1/peers", "", "", 200, `"source":"file"`},
		{"new peer", "PUT", "/v1/peers/{name}", "/v1/peers/transit-c", `{"number": 3, "address": "2001:db8:c::1", "asn": 64499, "families": ["ipv6"]}`, 200, "transit-c is added"},
		{"peer with a fault", "PUT", "/v1/peers/{name}", "/v1/peers/transit-c", `{}`, 400, "`number` is missing"},
		{"peer with null", "PUT", "/v1/peers/{name}", "/v1/peers/transit-c", `{"number": null}`, 400, "`null`"},
		{"peer of the file", "PUT", "/v1/peers/{name}", "/v1/peers/transit-a", `{"number": 3}`, 409, "is in the file"},
		{"peer removed", "DELETE", "/v1/peers/{name}", "/v1/peers/transit-c", "", 200, "changes"},
		{"peer that is not there", "DELETE", "/v1/peers/{name}", "/v1/peers/x", "", 404, "there is no peer"},
		{"connection by token", "PUT", "/v1/connections", "", `{"token": 4294967295, "class": "bulk", "mode": "aggregated", "avoid": ["transit-a"], "full": ["transit-b"], "order": [{"local": "[2001:db8:5::a1]:443", "remote": "[2001:db9::7]:50002"}]}`, 204, ""},
		{"order with a nameless subflow", "PUT", "/v1/connections", "", `{"token": 1, "order": [{"local": "[2001:db8:5::a1]:443", "remote": ""}]}`, 400, "needs `local` and `remote`"},
		{"order that is too long", "PUT", "/v1/connections", "", `{"token": 1, "order": [` + strings.Repeat(subflow+",", 16) + subflow + `]}`, 400, "at most 16"},
		{"connection by addresses", "PUT", "/v1/connections", "", `{"local": "[2001:db8:5::1]:443", "remote": "[2001:db9::7]:50000"}`, 204, ""},
	}
	for _, c := range cases {
		path := c.path
		if path == "" {
			path = c.pattern
		}
		status, answer := s.exchange(t, c.method, c.pattern, path, c.body)
		if status != c.status || !strings.Contains(answer, c.want) {
			t.Errorf("%s: %d %s, want %d with %s", c.name, status, answer, c.status, c.want)
		}
	}
	want := []Connection{{Token: 4294967295, Class: "bulk", Mode: Aggregated, Avoid: List[string]{"transit-a"}, Full: List[string]{"transit-b"}, Order: List[Subflow]{{
		Local: netip.MustParseAddrPort("[2001:db8:5::a1]:443"), Remote: netip.MustParseAddrPort("[2001:db9::7]:50002"),
	}}}, {
		Local: netip.MustParseAddrPort("[2001:db8:5::1]:443"), Remote: netip.MustParseAddrPort("[2001:db9::7]:50000"),
	}}
	if fmt.Sprint(s.connections) != fmt.Sprint(want) {
		t.Errorf("the agent received %v, want %v", s.connections, want)
	}
}

func TestLookupsAskForCleanPrefixes(t *testing.T) {
	cases := []struct{ name, client, want string }{
		{"an address", "2001:db9::7", "2001:db9::7/128"},
		{"an IPv4 prefix in IPv6", "::ffff:203.0.113.9/120", "203.0.113.0/24"},
	}
	for _, c := range cases {
		s := serve(t)
		if status, answer := s.exchange(t, "GET", "/v1/lookup", "/v1/lookup?client="+c.client, ""); status != 200 {
			t.Errorf("%s: %d %s", c.name, status, answer)
		} else if got := s.asked[0].String(); got != c.want {
			t.Errorf("%s: the agent was asked for %s, want %s", c.name, got, c.want)
		}
		s.stop()
	}
}

func TestBadRequests(t *testing.T) {
	s := serve(t)
	many := `{"clients": ["::1"` + strings.Repeat(`,"::1"`, 1000) + `]}`
	cases := []struct{ name, method, pattern, path, body, want string }{
		{"no client", "GET", "/v1/lookup", "/v1/lookup", "", "parameter `client`: invalid: \"\" is no address and no prefix"},
		{"a client that is none", "GET", "/v1/lookup", "/v1/lookup?client=x", "", "parameter `client`: invalid: \"x\" is no address and no prefix"},
		{"a client with zone", "GET", "/v1/lookup", "/v1/lookup?client=fe80::1%25eth0", "", "parameter `client`: invalid: \"fe80::1%eth0\" is no address and no prefix"},
		{"a client in a list that is none", "POST", "/v1/lookup", "", `{"clients": ["x"]}`, "invalid: reading the body: invalid: \"x\" is no address and no prefix"},
		{"too many clients", "POST", "/v1/lookup", "", many, "invalid: `clients` has 1001 entries, at most 1000 are answered"},
		{"no JSON", "POST", "/v1/lookup", "", `clients`, "invalid: reading the body: invalid character 'c' looking for beginning of value"},
		{"an unknown field", "POST", "/v1/lookup", "", `{"client": []}`, "invalid: reading the body: json: unknown field \"client\""},
		{"something behind", "POST", "/v1/lookup", "", `{} {}`, "invalid: something follows the JSON value in the body"},
		{"a body that is too large", "POST", "/v1/lookup", "", `{"clients": ["` + strings.Repeat("x", maxBody) + `"]}`, "invalid: the body has more than 131072 bytes"},
		{"a reason that is too long", "PUT", "/v1/paths/{name}/drain", "/v1/paths/transit-a/drain", `{"reason": "` + strings.Repeat("x", 257) + `"}`,
			"invalid: `reason` has 257 bytes, at most 256 are kept"},
		{"a name that is none", "PUT", "/v1/policies/{name}", "/v1/policies/a%20b", `{"mode": "plain"}`, "invalid: `name` \"a b\" is not 1 to 64 letters, digits, `.`, `_` and `-`"},
		{"an empty name", "PUT", "/v1/policies/{name}", "/v1/policies/a", `{"name": "", "mode": "plain"}`, "invalid: `name` \"\" is not 1 to 64 letters, digits, `.`, `_` and `-`"},
		{"no mode", "PUT", "/v1/policies/{name}", "/v1/policies/a", `{}`, "invalid: `mode` is \"\", expected one of [\"adaptive\" \"plain\" \"steered\" \"aggregated\"]"},
		{"an empty client", "PUT", "/v1/policies/{name}", "/v1/policies/a", `{"mode": "plain", "clients": [""]}`, "invalid: reading the body: invalid: \"\" is no address and no prefix"},
		{"an AS that is none", "PUT", "/v1/policies/{name}", "/v1/policies/a", `{"mode": "plain", "asns": [0]}`, "invalid: `asns` has 0, which is no AS (RFC 7607)"},
		{"an AS beyond 32 bits", "PUT", "/v1/policies/{name}", "/v1/policies/a", `{"mode": "plain", "asns": [4294967296]}`,
			"invalid: reading the body: `asns` has number 4294967296, which does not fit"},
		{"a class that is none", "PUT", "/v1/policies/{name}", "/v1/policies/a", `{"mode": "plain", "classes": [""]}`, "invalid: `classes` has \"\", which is not 1 to 64 letters, digits, `.`, `_` and `-`"},
		{"null for a body", "POST", "/v1/lookup", "", `null`, "invalid: the body has `null`: leave out what has no value"},
		{"null in a list", "POST", "/v1/lookup", "", `{"clients": [null]}`, "invalid: the body has `null`: leave out what has no value"},
		{"null for a text", "PUT", "/v1/paths/{name}/drain", "/v1/paths/transit-a/drain", `{"reason": null}`, "invalid: the body has `null`: leave out what has no value"},
		{"null for a list", "PUT", "/v1/policies/{name}", "/v1/policies/a", `{"mode": "plain", "backup": null}`, "invalid: the body has `null`: leave out what has no value"},
		{"null for a number", "PUT", "/v1/connections", "", `{"token": null}`, "invalid: the body has `null`: leave out what has no value"},
		{"a connection without name", "PUT", "/v1/connections", "", `{"local": "[::1]:1"}`, "invalid: name the connection by `token`, or by `local` and `remote`"},
		{"a connection's mode that is none", "PUT", "/v1/connections", "", `{"token": 1, "mode": "x"}`, "invalid: `mode` is \"x\", expected one of [\"adaptive\" \"plain\" \"steered\" \"aggregated\"]"},
		{"a connection's class that is none", "PUT", "/v1/connections", "", `{"token": 1, "class": "a b"}`, "invalid: `class` is \"a b\", which is not 1 to 64 letters, digits, `.`, `_` and `-`"},
	}
	for _, c := range cases {
		path := c.path
		if path == "" {
			path = c.pattern
		}
		status, answer := s.exchange(t, c.method, c.pattern, path, c.body)
		got, _ := decodeJSON(t, []byte(answer)).(object)["error"].(string)
		if status != http.StatusBadRequest || got != c.want {
			t.Errorf("%s: %d %s, want 400 %s", c.name, status, got, c.want)
		}
	}
	if len(s.policies)+len(s.connections) > 0 {
		t.Errorf("a request that was refused reached the agent: %v %v", s.policies, s.connections)
	}
}

func TestRequestsThatContradictThemselves(t *testing.T) {
	s := serve(t)
	for body, want := range map[string]string{
		`{"name": "b", "mode": "plain"}`:                     "conflict: `name` is `b`, but the request is for `a`",
		`{"mode": "plain", "paths": ["x"], "backup": ["y"]}`: "conflict: `backup` has \"y\", which is not among `paths`",
	} {
		status, answer := s.exchange(t, "PUT", "/v1/policies/{name}", "/v1/policies/a", body)
		got, _ := decodeJSON(t, []byte(answer)).(object)["error"].(string)
		if status != http.StatusConflict || got != want {
			t.Errorf("%s: %d %s, want 409 %s", body, status, got, want)
		}
	}
	if len(s.policies) > 0 {
		t.Errorf("a request that was refused reached the agent: %v", s.policies)
	}
}

func TestClientsOfAPolicyLoseTheirHostBits(t *testing.T) {
	s := serve(t)
	body := `{"mode": "plain", "clients": ["2001:db9::1/32", "192.0.2.7", "::ffff:192.0.2.9/120"]}`
	status, answer := s.exchange(t, "PUT", "/v1/policies/{name}", "/v1/policies/a", body)
	const want = `"clients":["2001:db9::/32","192.0.2.7/32","192.0.2.0/24"]`
	if status != http.StatusOK || !strings.Contains(answer, want) {
		t.Errorf("%d %s, want %s", status, answer, want)
	}
}

func TestRequestsThatAreNotServed(t *testing.T) {
	s := serve(t)
	cases := []struct {
		name, method, path, contentType string
		status                          int
		allow, want                     string
	}{
		{"nothing", "GET", "/v2", "", 404, "", "there is nothing at /v2"},
		{"the root", "GET", "/", "", 404, "", "there is nothing at /"},
		{"a wrong method", "POST", "/v1/paths", "", 405, "GET", "POST is not possible on /v1/paths; GET is"},
		{"a wrong method of several", "GET", "/v1/paths/x/drain", "", 405, "PUT, DELETE", "GET is not possible on /v1/paths/x/drain; PUT, DELETE is"},
		{"a form", "PUT", "/v1/connections", "application/x-www-form-urlencoded", 400, "", "invalid: the body must be JSON: send `Content-Type: application/json`"},
		{"a body of no type", "PUT", "/v1/connections", "", 400, "", "invalid: the body must be JSON: send `Content-Type: application/json`"},
	}
	for _, c := range cases {
		request, err := http.NewRequest(c.method, "http://egress"+c.path, strings.NewReader(`token=1`))
		if err != nil {
			t.Fatal(err)
		}
		if c.contentType != "" {
			request.Header.Set("Content-Type", c.contentType)
		}
		response, err := s.client.http.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		err = failure(response)
		response.Body.Close()
		if response.StatusCode != c.status || response.Header.Get("Allow") != c.allow || err.Error() != c.want {
			t.Errorf("%s: %d, Allow %q, %v", c.name, response.StatusCode, response.Header.Get("Allow"), err)
		}
	}
}

// Changes fail also for reasons that nobody foresaw.
func TestFailuresOfChangesAreDescribed(t *testing.T) {
	for _, c := range []struct{ method, pattern, path, body string }{
		{"PUT", "/v1/paths/{name}/drain", "/v1/paths/transit-a/drain", `{}`},
		{"DELETE", "/v1/paths/{name}/drain", "/v1/paths/transit-a/drain", ""},
		{"PUT", "/v1/policies/{name}", "/v1/policies/a", `{"mode": "plain"}`},
		{"DELETE", "/v1/policies/{name}", "/v1/policies/a", ""},
		{"PUT", "/v1/connections", "/v1/connections", `{"token": 1}`},
	} {
		s := serve(t)
		s.fake.broken = errors.New("the disk is full")
		s.fake.policies = []Policy{{Name: "a"}}
		if status, answer := s.exchange(t, c.method, c.pattern, c.path, c.body); status != http.StatusInternalServerError {
			t.Errorf("%s %s: %d %s, want 500", c.method, c.path, status, answer)
		}
	}
}

func TestErrorsOfTheAgent(t *testing.T) {
	cases := []struct {
		err    error
		status int
		want   error
		logged bool
	}{
		{fmt.Errorf("%w: bad", ErrInvalid), 400, ErrInvalid, false},
		{fmt.Errorf("%w: gone", ErrNotFound), 404, ErrNotFound, false},
		{fmt.Errorf("%w: at a border", ErrUnsupported), 501, ErrUnsupported, false},
		{errors.New("the disk is full"), 500, nil, true},
	}
	for _, c := range cases {
		s := serve(t)
		s.fake.broken = c.err
		err := s.client.DeletePolicy(t.Context(), "none")
		if !errors.Is(err, ErrNotFound) {
			t.Errorf("a policy that is not there: %v", err)
		}
		_, err = s.client.Paths(t.Context())
		if err == nil || err.Error() != c.err.Error() {
			t.Errorf("%v: the client has %v", c.err, err)
		}
		if c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%v: the client's error does not wrap %v", c.err, c.want)
		}
		s.stop()
		if logged := strings.Contains(s.log.String(), c.err.Error()); logged != c.logged {
			t.Errorf("%v: logged: %t: %s", c.err, logged, s.log)
		}
	}
}
