package kernel

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFindSchedulers(t *testing.T) {
	const closed = "\x00mptcp_sched_ops\x00bpf_struct_ops_tcp_congestion_ops\x00"
	cases := []struct{ name, list, types, want string }{
		{"the kernel's own alone", "default\n", closed, "takes no schedulers in eBPF"},
		{"another one is loaded", "default bpf_red\n", closed, ""},
		{"one can be loaded", "default\n", closed + "bpf_struct_ops_mptcp_sched_ops\x00", ""},
		{"a kernel that lists none", "-", closed, "no such file"},
		{"a kernel without type information", "default\n", "-", "is unknown"},
	}
	for _, c := range cases {
		dir := t.TempDir()
		list, types := filepath.Join(dir, "list"), filepath.Join(dir, "types")
		for file, text := range map[string]string{list: c.list, types: c.types} {
			if text == "-" {
				continue
			}
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		err := findSchedulers(list, types)
		if (c.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}
