package kernel

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
)

const (
	availableSchedulers = "/proc/sys/net/mptcp/available_schedulers"
	kernelBTF           = "/sys/kernel/btf/vmlinux"
)

// schedulerType is the type by whose name a kernel takes eBPF programs as schedulers of MPTCP.
const schedulerType = "\x00bpf_struct_ops_mptcp_sched_ops\x00"

// findSchedulers looks for a scheduler of MPTCP beside the kernel's own, in the file that lists
// them. Without one it looks in the kernel's type information whether one can be loaded.
func findSchedulers(list, btf string) error {
	text, err := os.ReadFile(list)
	if err != nil {
		return err
	}
	names := strings.Fields(string(text))
	for _, name := range names {
		if name != "default" {
			return nil
		}
	}
	types, err := os.ReadFile(btf)
	if err != nil {
		return fmt.Errorf("the schedulers are %q, and whether more can be loaded is unknown: %w", names, err)
	}
	if !bytes.Contains(types, []byte(schedulerType)) {
		return errors.New("the only scheduler is \"default\", and this kernel takes no schedulers in eBPF")
	}
	return nil
}
