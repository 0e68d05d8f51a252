package api

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// object is a mapping of the OpenAPI document.
type object = map[string]any

// document is docs/egress-api.yaml.
type document struct{ root object }

// resolve follows a $ref, if there is one.
func (d document) resolve(value any) object {
	node := value.(object)
	ref, ok := node["$ref"].(string)
	if !ok {
		return node
	}
	at := d.root
	for _, name := range strings.Split(strings.TrimPrefix(ref, "#/"), "/") {
		next, ok := at[name].(object)
		if !ok {
			panic("the document has no " + ref)
		}
		at = next
	}
	return at
}

func (d document) schema(name string) object {
	return d.resolve(object{"$ref": "#/components/schemas/" + name})
}

// validate returns where a JSON value does not match a schema.
func (d document) validate(schema any, value any, at string) []string {
	s := d.resolve(schema)
	var wrong []string
	bad := func(format string, args ...any) { wrong = append(wrong, at+": "+fmt.Sprintf(format, args...)) }
	if enum, ok := s["enum"].([]any); ok && !slices.Contains(enum, value) {
		bad("%v is none of %v", value, enum)
	}
	switch s["type"] {
	case "object":
		wrong = append(wrong, d.validateObject(s, value, at)...)
	case "array":
		items, ok := value.([]any)
		if !ok {
			bad("%v is no array", value)
		}
		if most, ok := s["maxItems"].(int); ok && len(items) > most {
			bad("%d items, at most %d", len(items), most)
		}
		for i, item := range items {
			wrong = append(wrong, d.validate(s["items"], item, fmt.Sprintf("%s[%d]", at, i))...)
		}
	case "string":
		if text, ok := value.(string); !ok {
			bad("%v is no string", value)
		} else if why := wrongString(s, text); why != "" {
			bad("%q %s", text, why)
		}
	case "integer":
		n, ok := value.(json.Number)
		i, err := n.Int64()
		if !ok || err != nil {
			bad("%v is no integer", value)
		} else if least, ok := s["minimum"].(int); ok && i < int64(least) {
			bad("%d is less than %d", i, least)
		} else if most, ok := s["maximum"].(int); ok && i > int64(most) {
			bad("%d is more than %d", i, most)
		}
	case "boolean":
		if _, ok := value.(bool); !ok {
			bad("%v is no boolean", value)
		}
	default:
		bad("the schema has the unknown type %v", s["type"])
	}
	return wrong
}

func (d document) validateObject(s object, value any, at string) []string {
	fields, ok := value.(object)
	if !ok {
		return []string{fmt.Sprintf("%s: %v is no object", at, value)}
	}
	var wrong []string
	properties := s["properties"].(object)
	for name, field := range fields {
		if property, ok := properties[name]; ok {
			wrong = append(wrong, d.validate(property, field, at+"."+name)...)
		} else if more, _ := s["additionalProperties"].(bool); !more {
			wrong = append(wrong, fmt.Sprintf("%s: unknown field %s", at, name))
		}
	}
	required, _ := s["required"].([]any)
	for _, name := range required {
		if _, ok := fields[name.(string)]; !ok {
			wrong = append(wrong, fmt.Sprintf("%s: %s is missing", at, name))
		}
	}
	return wrong
}

func wrongString(s object, text string) string {
	if pattern, ok := s["pattern"].(string); ok && !regexp.MustCompile(pattern).MatchString(text) {
		return "does not match " + pattern
	}
	if most, ok := s["maxLength"].(int); ok && len(text) > most {
		return "is too long"
	}
	var err error
	switch s["format"] {
	case nil:
	case "date-time":
		_, err = time.Parse(time.RFC3339Nano, text)
	case "ip", "ipv4", "ipv6":
		var address netip.Addr
		address, err = netip.ParseAddr(text)
		if err == nil && (s["format"] == "ipv4") != address.Is4() && s["format"] != "ip" {
			return "is of the other family"
		}
	case "prefix":
		_, err = netip.ParsePrefix(text)
	case "address-port":
		_, err = netip.ParseAddrPort(text)
	default:
		return fmt.Sprintf("has the unknown format %v", s["format"])
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

// decodeJSON keeps numbers as they are written.
func decodeJSON(t *testing.T, text []byte) any {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		t.Fatalf("%q is no JSON: %v", text, err)
	}
	return value
}

func TestValidateRefusesWrongDocuments(t *testing.T) {
	d := readDocument(t)
	cases := []struct{ name, schema, value, want string }{
		{"right", "Routes", `{"ipv6": 1, "ipv4": 0}`, ""},
		{"missing", "Routes", `{"ipv6": 1}`, "v: ipv4 is missing"},
		{"unknown", "Routes", `{"ipv6": 1, "ipv4": 0, "x": 1}`, "v: unknown field x"},
		{"of another type", "Routes", `{"ipv6": "1", "ipv4": 0}`, "v.ipv6: 1 is no integer"},
		{"too small", "Routes", `{"ipv6": -1, "ipv4": 0}`, "v.ipv6: -1 is less than 0"},
		{"null for a list", "PathList", `{"paths": null}`, "v.paths: <nil> is no array"},
		{"not among the words", "Mode", `"fast"`, "v: fast is none of [adaptive plain steered aggregated]"},
		{"deep inside", "PathList", `{"paths": [1]}`, "v.paths[0]: 1 is no object"},
		{"a wrong prefix", "RouteChange", `{"path": "a", "prefixes": ["x"]}`, `v.prefixes[0]: "x" netip.ParsePrefix("x"): no '/'`},
	}
	for _, c := range cases {
		got := strings.Join(d.validate(d.schema(c.schema), decodeJSON(t, []byte(c.value)), "v"), "; ")
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
