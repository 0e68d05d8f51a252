package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// decoder fills structs from a document. It goes on after a mistake, so that
// all of them are reported at once, and remembers where each value stood.
type decoder struct {
	text     []byte
	places   map[string]span
	wrong    map[string]bool
	problems []Problem
}

func newDecoder(text []byte) *decoder {
	return &decoder{text: text, places: map[string]span{}, wrong: map[string]bool{}}
}

// report notes the fault of a key. Where the file does not have the key, the place is that
// of the table which should.
func (d *decoder) report(key, format string, args ...any) {
	d.wrong[key] = true
	d.problems = append(d.problems, problem(d.text, d.place(key), key, fmt.Sprintf(format, args...)))
}

func (d *decoder) place(key string) *span {
	for key != "" {
		if at, ok := d.places[key]; ok {
			return &at
		}
		key = key[:max(strings.LastIndexByte(key, '.'), 0)]
	}
	return nil
}

// given reports whether the file has a key.
func (d *decoder) given(key string) bool {
	_, ok := d.places[key]
	return ok
}

// table fills the fields of a struct.
func (d *decoder) table(n *node, v reflect.Value, path string) {
	fields := fieldsOf(v)
	for _, f := range n.fields {
		key := join(path, f.name)
		i := slices.IndexFunc(fields, func(known keyField) bool { return known.name == f.name })
		if i < 0 {
			d.places[key] = f.at
			d.report(key, "%s", unknownKey(f.name, path, fields))
			continue
		}
		d.value(f.value, fields[i].value, key)
	}
}

func (d *decoder) value(n *node, v reflect.Value, key string) {
	d.places[key] = n.at
	if r, ok := readers[v.Type()]; ok {
		d.scalar(n, v, key, r)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		if n.kind != unstable.Table {
			d.report(key, "`%s` is %s; expected a table, [%s]", leaf(key), kindName(n), leaf(key))
			return
		}
		d.table(n, v, key)
	case reflect.Slice:
		d.array(n, v, key)
	default:
		panic(fmt.Sprintf("config: no reader for %s of type %s", key, v.Type()))
	}
}

func (d *decoder) scalar(n *node, v reflect.Value, key string, r reader) {
	if !slices.Contains(r.kinds, n.kind) {
		d.report(key, "`%s` is %s; expected %s", leaf(key), kindName(n), r.expected)
		return
	}
	value, err := r.read(n.text)
	if err != nil {
		d.report(key, "`%s`: %s", leaf(key), err)
		return
	}
	v.Set(reflect.ValueOf(value).Convert(v.Type()))
}

func (d *decoder) array(n *node, v reflect.Value, key string) {
	element := v.Type().Elem()
	if n.kind != unstable.Array {
		expected := "an array"
		if _, ok := readers[element]; !ok {
			expected = "[[" + leaf(key) + "]]"
		}
		d.report(key, "`%s` is %s; expected %s", leaf(key), kindName(n), expected)
		return
	}
	items := reflect.MakeSlice(v.Type(), 0, len(n.items))
	for i, item := range n.items {
		value := reflect.New(element).Elem()
		switch element {
		case reflect.TypeFor[Peer]():
			value.Set(reflect.ValueOf(defaultPeer()))
		case reflect.TypeFor[RPKICache]():
			value.Set(reflect.ValueOf(defaultCache()))
		case reflect.TypeFor[Port]():
			value.Set(reflect.ValueOf(defaultPort()))
		}
		d.value(item, value, fmt.Sprintf("%s[%d]", key, i))
		items = reflect.Append(items, value)
	}
	v.Set(items)
}

// keyField is a field of a struct with the key that fills it.
type keyField struct {
	name  string
	value reflect.Value
}

// fieldsOf returns the fields that keys may fill, those of embedded structs
// among them.
func fieldsOf(v reflect.Value) []keyField {
	var fields []keyField
	for i := range v.NumField() {
		f := v.Type().Field(i)
		switch {
		case f.Anonymous:
			fields = append(fields, fieldsOf(v.Field(i))...)
		default:
			fields = append(fields, keyField{f.Tag.Get("toml"), v.Field(i)})
		}
	}
	return fields
}

func unknownKey(name, path string, fields []keyField) string {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = "`" + f.name + "`"
	}
	where := ""
	if path != "" {
		where = fmt.Sprintf(" in [%s]", path)
		if strings.HasSuffix(path, "]") {
			where = fmt.Sprintf(" in [[%s]]", path[:strings.LastIndexByte(path, '[')])
		}
	}
	return fmt.Sprintf("unknown key `%s`%s, expected one of %s", name, where, strings.Join(names, ", "))
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// leaf is the last name of a key, without an index.
func leaf(key string) string {
	key = key[strings.LastIndexByte(key, '.')+1:]
	name, _, _ := strings.Cut(key, "[")
	return name
}
