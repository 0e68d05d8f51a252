package preflight

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// agentProgram is the name of the agent's processes in the kernel, which keeps 15 bytes of it.
const agentProgram = "hikyaku-egress"

// unknownOwner stands for a program that cannot be found, as that of another user.
const unknownOwner = "another program"

// owner names the process that has a socket open.
func owner(inode uint32) string {
	link := fmt.Sprintf("socket:[%d]", inode)
	descriptors, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, d := range descriptors {
		if to, err := os.Readlink(d); err != nil || to != link {
			continue
		}
		process := filepath.Dir(filepath.Dir(d))
		name, err := os.ReadFile(filepath.Join(process, "comm"))
		if err != nil {
			continue
		}
		return fmt.Sprintf("%s (process %s)", strings.TrimSpace(string(name)), filepath.Base(process))
	}
	return unknownOwner
}

// isAgent reports whether a program is the agent itself.
func isAgent(owner string) bool { return strings.HasPrefix(owner, agentProgram+" (") }
