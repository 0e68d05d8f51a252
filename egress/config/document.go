package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// node is a value of a TOML document with its place in the text. go-toml's own
// decoder stops at the first value that does not fit, and forgets places before
// values can be compared with each other.
type node struct {
	kind unstable.Kind // Table for tables of every notation, Array likewise
	// text of a scalar: of a string its content, else as it is written.
	text string
	at   span
	// items of an array.
	items []*node
	// fields of a table, in the file's order.
	fields []field
}

// field is a key of a table with its value.
type field struct {
	name  string
	at    span
	value *node
}

// get returns the value of a key, or nil.
func (n *node) get(name string) *node {
	for _, f := range n.fields {
		if f.name == name {
			return f.value
		}
	}
	return nil
}

// parseDocument reads a whole TOML text into a tree.
func parseDocument(text []byte) (*node, *Problem) {
	if p := syntaxProblem(text); p != nil {
		return nil, p
	}
	root := &node{kind: unstable.Table}
	reader := documentReader{}
	reader.parser.Reset(text)
	table := root
	for reader.parser.NextExpression() {
		expression := reader.parser.Expression()
		switch expression.Kind {
		case unstable.KeyValue:
			reader.insert(table, expression)
		case unstable.Table:
			table = reader.table(root, expression.Key())
		case unstable.ArrayTable:
			table = reader.arrayTable(root, expression.Key())
		}
	}
	return root, nil
}

// syntaxProblem lets go-toml check the text, also for keys that are given twice.
func syntaxProblem(text []byte) *Problem {
	var any map[string]any
	err := toml.Unmarshal(text, &any)
	if err == nil {
		return nil
	}
	var decode *toml.DecodeError
	if !errors.As(err, &decode) {
		p := problem(text, nil, "", strings.TrimPrefix(err.Error(), "toml: "))
		return &p
	}
	line, column := decode.Position()
	start := offset(text, line, column)
	p := problem(text, &span{start, start + 1}, "",
		"this is no TOML: "+strings.TrimPrefix(decode.Error(), "toml: "))
	return &p
}

// offset returns the byte at a line and column, both from 1; go-toml counts
// columns in bytes.
func offset(text []byte, line, column int) int {
	start := 0
	for ; line > 1; line-- {
		next := strings.IndexByte(string(text[start:]), '\n')
		if next < 0 {
			break
		}
		start += next + 1
	}
	return min(start+max(column-1, 0), len(text))
}

// documentReader turns go-toml's expressions into nodes.
type documentReader struct{ parser unstable.Parser }

func (r *documentReader) spanOf(raw unstable.Range) span {
	return span{int(raw.Offset), int(raw.Offset) + int(raw.Length)}
}

// keyPart is one of the names of a dotted key.
type keyPart struct {
	name string
	at   span
}

func (r *documentReader) key(it unstable.Iterator) []keyPart {
	var parts []keyPart
	for it.Next() {
		n := it.Node()
		parts = append(parts, keyPart{string(n.Data), r.spanOf(n.Raw)})
	}
	return parts
}

// descend returns the table that a key's part names, making it where it is new;
// of an array of tables the last one.
func descend(n *node, part keyPart) *node {
	value := n.get(part.name)
	switch {
	case value == nil:
		value = &node{kind: unstable.Table, at: part.at}
		n.fields = append(n.fields, field{part.name, part.at, value})
	case value.kind == unstable.Array && len(value.items) > 0:
		value = value.items[len(value.items)-1]
	}
	return value
}

func (r *documentReader) table(root *node, key unstable.Iterator) *node {
	n := root
	for _, part := range r.key(key) {
		n = descend(n, part)
	}
	return n
}

func (r *documentReader) arrayTable(root *node, key unstable.Iterator) *node {
	parts := r.key(key)
	n := root
	for _, part := range parts[:len(parts)-1] {
		n = descend(n, part)
	}
	last := parts[len(parts)-1]
	array := n.get(last.name)
	if array == nil {
		array = &node{kind: unstable.Array, at: last.at}
		n.fields = append(n.fields, field{last.name, last.at, array})
	}
	item := &node{kind: unstable.Table, at: last.at}
	array.items = append(array.items, item)
	return item
}

func (r *documentReader) insert(table *node, expression *unstable.Node) {
	parts := r.key(expression.Key())
	for _, part := range parts[:len(parts)-1] {
		table = descend(table, part)
	}
	last := parts[len(parts)-1]
	table.fields = append(table.fields, field{last.name, last.at, r.value(expression.Value(), last.at)})
}

// value copies a value; go-toml uses its nodes again for the next expression.
// Where go-toml knows no place for a value, that of its key stands in.
func (r *documentReader) value(n *unstable.Node, key span) *node {
	out := &node{kind: n.Kind, text: string(n.Data), at: key}
	if n.Raw.Length > 0 {
		out.at = r.spanOf(n.Raw)
	}
	it := n.Children()
	switch n.Kind {
	case unstable.Array:
		for it.Next() {
			out.items = append(out.items, r.value(it.Node(), key))
		}
	case unstable.InlineTable:
		out.kind, out.at = unstable.Table, key
		for it.Next() {
			r.insert(out, it.Node())
		}
	}
	return out
}

// kindName names the kind of a value, for messages.
func kindName(n *node) string {
	switch n.kind {
	case unstable.Table:
		return "a table"
	case unstable.Array:
		return "an array"
	case unstable.String:
		return fmt.Sprintf("the string %q", n.text)
	case unstable.Bool:
		return "the boolean " + n.text
	case unstable.Integer:
		return "the number " + n.text
	case unstable.Float:
		return "the decimal number " + n.text
	}
	return "the date or time " + n.text
}
