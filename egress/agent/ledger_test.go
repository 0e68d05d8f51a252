package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestNotesAfterALossOfPower(t *testing.T) {
	for _, c := range []struct{ name, text, err string }{
		{"an empty file", "", ""},
		{"not ours", "{", "remove it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, ledgerFile), []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			l, err := openLedger(dir)
			switch {
			case c.err == "" && err != nil:
				t.Error(err)
			case c.err == "" && len(l.notes.Sysctls)+len(l.notes.Endpoints) > 0:
				t.Errorf("notes of nothing: %+v", l.notes)
			case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
				t.Errorf("error %v, want one that says %q", err, c.err)
			}
		})
	}
}
