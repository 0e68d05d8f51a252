package api

import (
	"fmt"
	"mime"
	"net/http"
	"net/netip"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// operation returns a path's method of the document.
func (d document) operation(t *testing.T, method, pattern string) object {
	t.Helper()
	paths := d.root["paths"].(object)
	path, ok := paths[pattern].(object)
	if !ok {
		t.Fatalf("the document has no %s", pattern)
	}
	operation, ok := path[strings.ToLower(method)].(object)
	if !ok {
		t.Fatalf("the document has no %s %s", method, pattern)
	}
	return operation
}

// checkAnswer returns how an answer differs from the document.
func (d document) checkAnswer(t *testing.T, operation object, response *http.Response, text []byte) []string {
	t.Helper()
	answers := operation["responses"].(object)
	described, ok := answers[strconv.Itoa(response.StatusCode)]
	if !ok {
		return []string{fmt.Sprintf("the status %d is not described: %s", response.StatusCode, text)}
	}
	content, ok := d.resolve(described)["content"].(object)
	if !ok {
		if len(text) > 0 {
			return []string{fmt.Sprintf("a body that is not described: %s", text)}
		}
		return nil
	}
	kind, _, err := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if err != nil {
		return []string{err.Error()}
	}
	media, ok := content[kind].(object)
	if !ok {
		return []string{fmt.Sprintf("the media type %s is not described", kind)}
	}
	if kind != "application/json" {
		return nil
	}
	return d.validate(media["schema"], decodeJSON(t, text), "answer")
}

func TestEveryRouteIsDescribed(t *testing.T) {
	s := serve(t)
	var described []string
	for path, methods := range s.doc.root["paths"].(object) {
		for method := range methods.(object) {
			if method != "parameters" {
				described = append(described, strings.ToUpper(method)+" "+path)
			}
		}
	}
	routes := slices.Clone(s.server.routes)
	slices.Sort(routes)
	slices.Sort(described)
	if !slices.Equal(routes, described) {
		t.Errorf("served:    %q\ndescribed: %q", routes, described)
	}
}

// The document has a schema for each type, with the same fields: an answer in a test may
// leave out rare ones.
func TestSchemasHaveTheFieldsOfTheTypes(t *testing.T) {
	d := readDocument(t)
	answers := map[string]any{
		"Status": Status{}, "Feature": Feature{}, "Path": Path{}, "Probe": Probe{}, "Port": Port{}, "PortShares": PortShares{}, "Routes": Routes{}, "Drain": Drain{},
		"PathList": PathList{}, "Session": Session{}, "SessionList": SessionList{}, "Ends": Ends{}, "Faults": Faults{}, "Withheld": Withheld{}, "Refused": Refused{}, "Origins": Origins{}, "RPKICache": RPKICache{}, "Lookup": Lookup{}, "Verdict": Verdict{},
		"Reach": Reach{}, "LookupList": LookupList{}, "Policy": Policy{}, "PolicyList": PolicyList{},
		"Snapshot": Snapshot{}, "RouteChange": RouteChange{}, "Readiness": Readiness{}, "Failure": Failure{},
		"Reloaded": Reloaded{}, "Peer": Peer{}, "PeerList": PeerList{}, "Route": Route{}, "RouteList": RouteList{}, "ConnectionList": ConnectionList{},
		"ManagedConnection": ManagedConnection{}, "ManagedSubflow": ManagedSubflow{}, "Explanation": Explanation{},
		"Router": Router{}, "RouterPeer": RouterPeer{}, "RouterList": RouterList{},
		"PlainWay": PlainWay{}, "PathExplanation": PathExplanation{},
	}
	requests := map[string]any{
		"DrainRequest": DrainRequest{}, "LookupRequest": LookupRequest{},
		"PolicyRequest": Policy{}, "ConnectionRequest": Connection{}, "Subflow": Subflow{},
	}
	checked := map[string]bool{"PathState": true, "RouteState": true, "PeerRequest": true, "Mode": true, "ClientPrefix": true, "AddressPort": true}
	for name, value := range answers {
		checked[name] = true
		all, required := jsonFields(reflect.TypeOf(value))
		schema := d.schema(name)
		same(t, name+": fields", all, keys(schema["properties"]))
		same(t, name+": required", required, texts(schema["required"]))
	}
	for name, value := range requests {
		checked[name] = true
		all, _ := jsonFields(reflect.TypeOf(value))
		same(t, name+": fields", all, keys(d.schema(name)["properties"]))
	}
	for name := range d.root["components"].(object)["schemas"].(object) {
		if !checked[name] {
			t.Errorf("the schema %s belongs to no type", name)
		}
	}
	same(t, "Mode", []string{"adaptive", "aggregated", "plain", "steered"}, texts(d.schema("Mode")["enum"]))
	same(t, "PathState", []string{string(Down), string(Draining), string(Up)}, texts(d.schema("PathState")["enum"]))
}

func same(t *testing.T, what string, got, want []string) {
	t.Helper()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%s: types have %q, the document has %q", what, got, want)
	}
}

// jsonFields returns the names of a struct's fields, and those which are always
// there.
func jsonFields(structure reflect.Type) (all, required []string) {
	for i := range structure.NumField() {
		name, options, _ := strings.Cut(structure.Field(i).Tag.Get("json"), ",")
		all = append(all, name)
		if options == "" {
			required = append(required, name)
		}
	}
	return all, required
}

func keys(mapping any) []string {
	var out []string
	for key := range mapping.(object) {
		out = append(out, key)
	}
	return out
}

func texts(sequence any) []string {
	var out []string
	items, _ := sequence.([]any)
	for _, item := range items {
		out = append(out, item.(string))
	}
	return out
}

func TestPatternsAreThoseOfTheParsers(t *testing.T) {
	d := readDocument(t)
	pattern := func(name string) *regexp.Regexp { return regexp.MustCompile(d.schema(name)["pattern"].(string)) }
	client, addressPort := pattern("ClientPrefix"), pattern("AddressPort")
	addresses := []string{
		"0.0.0.0", "255.255.255.255", "256.0.0.1", "01.2.3.4", "1.2.3", "::", "::1", "1::", "2001:db8::1", "1:2:3:4:5:6:7:8",
		"1:2:3:4:5:6:7::", "::2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8:9", "1::2::3", "::ffff:192.0.2.1", "1:2:3:4:5:6:192.0.2.1",
		"1:2:3:4:5:6:7:192.0.2.1", ":1", "1:", "g::", "12345::", "", "x",
	}
	for _, address := range addresses {
		for _, length := range []string{"", "/0", "/8", "/32", "/33", "/128", "/129", "/08", "/-1", "/"} {
			text := address + length
			if _, err := parseClient(text); (err == nil) != client.MatchString(text) {
				t.Errorf("%q: the parser's error is %v, the document's pattern matches: %v", text, err, client.MatchString(text))
			}
		}
		for _, text := range []string{address + ":443", "[" + address + "]:443", "[" + address + "%eth0]:65535", "[" + address + "]:65536", address} {
			if _, err := netip.ParseAddrPort(text); text != "" && (err == nil) != addressPort.MatchString(text) {
				t.Errorf("%q: the parser's error is %v, the document's pattern matches: %v", text, err, addressPort.MatchString(text))
			}
		}
	}
}
