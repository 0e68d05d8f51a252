package config

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// Source is what a configuration is read from.
type Source struct {
	// Path of the file.
	Path string
	// Text of the file.
	Text []byte
	// Peers are egress peers beside those of the file, by name: the keys of [[peer]] but `name`,
	// with values as JSON has them.
	Peers map[string]map[string]any
}

// ErrInFile is wrapped where a peer of [Source.Peers] is in the file, too.
var ErrInFile = errors.New("it is in the file, too")

// ReadSource reads a file, and checks nothing.
func ReadSource(path string) (Source, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return Source{}, fmt.Errorf("reading the configuration from %s: %w", path, err)
	}
	return Source{Path: path, Text: text}, nil
}

// Parse checks the configuration. Its errors are those of [Load], or say which of the further
// peers does not go with the file.
func (s Source) Parse() (*File, error) {
	file, err := Parse(s.Path, s.Text)
	if err != nil || len(s.Peers) == 0 || file.Border == nil {
		return file, err
	}
	for i := range file.Border.Peers {
		if name := file.Border.Peers[i].Name; s.Peers[name] != nil {
			return nil, fmt.Errorf("peer `%s` was added by the API and %w: take it out of %s, or send DELETE /v1/peers/%s",
				name, ErrInFile, s.Path, name)
		}
	}
	text := slices.Clone(s.Text)
	for _, name := range slices.Sorted(maps.Keys(s.Peers)) {
		// One at a time, so that a fault is known to be this one's: all before it are right.
		if text, err = appendPeer(text, name, s.Peers[name]); err != nil {
			return nil, err
		}
		if file, err = Parse(s.Path, text); err != nil {
			return nil, fmt.Errorf("peer `%s`, added by the API: %w", name, withoutPlaces(err))
		}
	}
	return file, nil
}

// appendPeer adds a peer to a configuration.
func appendPeer(text []byte, name string, keys map[string]any) ([]byte, error) {
	table := map[string]any{"name": name}
	for key, value := range keys {
		table[key] = wholeNumbers(value)
	}
	added, err := toml.Marshal(map[string]any{"peer": []map[string]any{table}})
	if err != nil {
		return nil, fmt.Errorf("peer `%s`, added by the API: %w", name, err)
	}
	return slices.Concat(text, []byte("\n"), bytes.TrimSpace(added), []byte("\n")), nil
}

// wholeNumbers turns the numbers of JSON into those of TOML, where they are whole.
func wholeNumbers(value any) any {
	switch v := value.(type) {
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return int64(v)
		}
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = wholeNumbers(v[i])
		}
		return list
	}
	return value
}

// withoutPlaces leaves out where in a text the faults are.
func withoutPlaces(err error) error {
	var all *Errors
	if !errors.As(err, &all) {
		return err
	}
	var messages []string
	for _, p := range all.Problems {
		messages = append(messages, p.Message)
	}
	return errors.New(strings.Join(messages, "; "))
}
