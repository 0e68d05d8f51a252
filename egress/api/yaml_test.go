package api

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// readYAML reads the part of YAML that docs/egress-api.yaml is written in. These are block
// mappings and sequences, `>-`, flow sequences and mappings on one line, plain and
// double-quoted scalars. It refuses everything else, so that nothing is read in another way
// than YAML has it. Scalars become string, bool or int.
func readYAML(text string) (value any, err error) {
	defer func() {
		if problem, ok := recover().(yamlError); ok {
			err = problem
		}
	}()
	r := &yamlReader{}
	for number, line := range strings.Split(text, "\n") {
		content := strings.TrimLeft(line, " ")
		if content != "" && !strings.HasPrefix(content, "#") {
			r.lines = append(r.lines, yamlLine{number + 1, len(line) - len(content), content})
		}
	}
	value = r.block(0)
	r.must(r.at == len(r.lines), "indented less than what it belongs to")
	return value, nil
}

type yamlLine struct {
	number, indent int
	content        string
}

type yamlError string

func (e yamlError) Error() string { return string(e) }

type yamlReader struct {
	lines []yamlLine
	at    int
}

func (r *yamlReader) must(ok bool, why string) {
	if !ok {
		line := r.lines[min(r.at, len(r.lines)-1)]
		panic(yamlError(fmt.Sprintf("line %d: %s: %s", line.number, why, line.content)))
	}
}

// peek reports whether a line of exactly this indentation follows.
func (r *yamlReader) peek(indent int) bool {
	return r.at < len(r.lines) && r.lines[r.at].indent == indent
}

func (r *yamlReader) block(indent int) any {
	r.must(r.peek(indent), "expected a mapping or sequence")
	if strings.HasPrefix(r.lines[r.at].content, "- ") {
		return r.sequence(indent)
	}
	return r.mapping(indent)
}

func (r *yamlReader) sequence(indent int) any {
	var items []any
	for r.peek(indent) && strings.HasPrefix(r.lines[r.at].content, "- ") {
		line := &r.lines[r.at]
		rest := strings.TrimPrefix(line.content, "- ")
		if strings.HasPrefix(rest, "{") || !strings.Contains(rest, ": ") {
			items = append(items, r.scalar(rest))
			r.at++
			continue
		}
		line.indent, line.content = indent+2, rest
		items = append(items, r.mapping(indent+2))
	}
	return items
}

func (r *yamlReader) mapping(indent int) any {
	fields := map[string]any{}
	for r.peek(indent) {
		line := r.lines[r.at]
		name, rest, ok := cutKey(line.content)
		r.must(ok, "expected KEY: VALUE")
		_, twice := fields[name]
		r.must(!twice, "a key twice")
		r.at++
		switch {
		case rest == ">-":
			fields[name] = r.folded(indent)
		case rest != "":
			r.at--
			fields[name] = r.scalar(rest)
			r.at++
		default:
			r.must(r.at < len(r.lines), "expected a value")
			fields[name] = r.block(indent + 2)
		}
	}
	r.must(r.at == len(r.lines) || r.lines[r.at].indent < indent, "indented more than what it belongs to")
	return fields
}

func cutKey(content string) (name, rest string, ok bool) {
	if strings.HasPrefix(content, `"`) {
		end := strings.Index(content[1:], `"`)
		if end < 0 || !strings.HasPrefix(content[end+2:], ":") {
			return "", "", false
		}
		return content[1 : end+1], strings.TrimPrefix(content[end+3:], " "), true
	}
	if name, ok := strings.CutSuffix(content, ":"); ok {
		return name, "", true
	}
	return strings.Cut(content, ": ")
}

func (r *yamlReader) folded(indent int) string {
	var lines []string
	for r.at < len(r.lines) && r.lines[r.at].indent > indent {
		lines = append(lines, r.lines[r.at].content)
		r.at++
	}
	r.must(len(lines) > 0, "expected text")
	return strings.Join(lines, " ")
}

// scalar reads a value on one line, of flow style or plain.
func (r *yamlReader) scalar(text string) any {
	value, rest := r.flow(text, "")
	r.must(rest == "", "something follows the value")
	return value
}

// flow reads a value up to one of the characters in stop.
func (r *yamlReader) flow(text, stop string) (value any, rest string) {
	switch {
	case strings.HasPrefix(text, "["):
		return r.flowSequence(text[1:])
	case strings.HasPrefix(text, "{"):
		return r.flowMapping(text[1:])
	case strings.HasPrefix(text, `"`):
		end := strings.Index(text[1:], `"`)
		r.must(end >= 0 && !strings.Contains(text[:end+1], `\`), "an open or escaped string")
		return text[1 : end+1], strings.TrimLeft(text[end+2:], " ")
	}
	plain := text
	if i := strings.IndexAny(text, stop); stop != "" && i >= 0 {
		plain, rest = text[:i], text[i:]
	}
	plain = strings.TrimSpace(plain)
	r.must(plain != "" && !strings.ContainsAny(plain[:1], "&*!|>%@`'#,?-]}") || isInt(plain), "not a plain scalar")
	r.must(!strings.Contains(plain, ": ") && !strings.Contains(plain, " #"), "quotes are needed")
	switch n, err := strconv.Atoi(plain); {
	case err == nil:
		return n, rest
	case plain == "true" || plain == "false":
		return plain == "true", rest
	}
	r.must(plain != "null" && plain != "~" && plain != "yes" && plain != "no", "not a string in YAML")
	return plain, rest
}

func isInt(text string) bool {
	_, err := strconv.Atoi(text)
	return err == nil
}

func (r *yamlReader) flowSequence(text string) (value any, rest string) {
	var items []any
	for {
		var item any
		item, text = r.flow(strings.TrimLeft(text, " "), ",]")
		items = append(items, item)
		if after, ok := strings.CutPrefix(text, "]"); ok {
			return items, strings.TrimLeft(after, " ")
		}
		r.must(strings.HasPrefix(text, ","), "expected , or ]")
		text = text[1:]
	}
}

func (r *yamlReader) flowMapping(text string) (value any, rest string) {
	fields := map[string]any{}
	for {
		name, after, ok := cutKey(strings.TrimLeft(text, " "))
		r.must(ok, "expected KEY: VALUE")
		fields[name], text = r.flow(strings.TrimLeft(after, " "), ",}")
		if after, ok := strings.CutPrefix(text, "}"); ok {
			return fields, strings.TrimLeft(after, " ")
		}
		r.must(strings.HasPrefix(text, ","), "expected , or }")
		text = text[1:]
	}
}

func TestReadYAML(t *testing.T) {
	const text = "a: 1\nb:\n  - x: [y, 2]\n    \"z w\": { q: true, r: \"s: t\" }\n  - { u: v }\nc: >-\n  one\n  two\n"
	got, err := readYAML(text)
	const want = `map[a:1 b:[map[x:[y 2] z w:map[q:true r:s: t]] map[u:v]] c:one two]`
	if err != nil || fmt.Sprint(got) != want {
		t.Errorf("got %v, %v, want %s", got, err, want)
	}
	for name, text := range map[string]string{
		"a key twice":      "a: 1\na: 2\n",
		"an anchor":        "a: &b 1\n",
		"a literal block":  "a: |\n  x\n",
		"wrong indent":     "a:\n   b: 1\n",
		"an open sequence": "a: [1, 2\n",
		"a single quote":   "a: 'x'\n",
		"no value":         "a\n",
		"null":             "a: null\n",
		"colon in plain":   "a: b: c\n",
		"comment behind":   "a: b # c\n",
	} {
		if got, err := readYAML(text); err == nil {
			t.Errorf("%s: %v", name, got)
		}
	}
}
