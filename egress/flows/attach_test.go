package flows

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"hikyaku/egress/netnstest"
)

// With crashHook set the test binary is a counter that waits to be killed.
const crashHook, crashNamespace = "HIKYAKU_FLOWS_CRASH_HOOK", "HIKYAKU_FLOWS_CRASH_NAMESPACE"

func TestMain(m *testing.M) {
	if hook := os.Getenv(crashHook); hook != "" {
		countUntilKilled(hook)
	}
	os.Exit(m.Run())
}

func countUntilKilled(hook string) {
	runtime.LockOSThread()
	var counter *Counter
	namespace, err := os.Open(os.Getenv(crashNamespace))
	if err == nil {
		err = unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET)
	}
	if err == nil {
		opts := Options{Interface: device, MaxFlows: 1000, Hook: HookTCX}
		if hook == HookClsact.String() {
			opts.Hook = HookClsact
		}
		counter, err = Attach(opts)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("counting")
	time.Sleep(time.Hour)
	runtime.KeepAlive(counter) // else a garbage collection closes its lock
}

// crash counts in a process of its own and kills that.
func (l *lab) crash(hook Hook) {
	l.tb.Helper()
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), crashHook+"="+hook.String(), crashNamespace+"="+l.server.Path())
	out, err := command.StdoutPipe()
	if err != nil {
		l.tb.Fatal(err)
	}
	if err := command.Start(); err != nil {
		l.tb.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "counting\n" {
		l.tb.Fatalf("counting in another process: %q, error %v", line, err)
	}
	var second error
	l.server.Do(func() { _, second = Attach(Options{Interface: device, MaxFlows: 1000, Hook: hook}) })
	if !errors.Is(second, ErrInUse) {
		l.tb.Errorf("a second counter: got error %v, want %v", second, ErrInUse)
	}
	if err := command.Process.Kill(); err != nil {
		l.tb.Fatal(err)
	}
	_ = command.Wait() // "signal: killed"
}

// filters lists the names of tc filters on egress.
func (l *lab) filters() []string {
	l.tb.Helper()
	var names []string
	l.server.Do(func() {
		link, err := netlink.LinkByName(device)
		if err != nil {
			l.tb.Fatal(err)
		}
		filters, err := netlink.FilterList(link, netlink.HANDLE_MIN_EGRESS)
		if err != nil {
			l.tb.Fatal(err)
		}
		for _, filter := range filters {
			if b, ok := filter.(*netlink.BpfFilter); ok {
				names = append(names, b.Name)
			}
		}
	})
	return names
}

// addForeignFilter adds somebody else's filter at the last priority, where ours
// would go, too.
func (l *lab) addForeignFilter() {
	l.tb.Helper()
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.SchedCLS, License: "MIT",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, -1), asm.Return()},
	})
	if err != nil {
		l.tb.Fatal(err)
	}
	defer program.Close()
	l.server.Do(func() {
		link, err := netlink.LinkByName(device)
		if err != nil {
			l.tb.Fatal(err)
		}
		attrs := netlink.QdiscAttrs{LinkIndex: link.Attrs().Index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT}
		if err := netlink.QdiscAdd(&netlink.Clsact{QdiscAttrs: attrs}); err != nil {
			l.tb.Fatal(err)
		}
		if err := netlink.FilterAdd(&netlink.BpfFilter{
			FilterAttrs: netlink.FilterAttrs{
				LinkIndex: link.Attrs().Index, Parent: netlink.HANDLE_MIN_EGRESS,
				Handle: filterHandle, Protocol: unix.ETH_P_ALL, Priority: lastPriority,
			},
			Fd: program.FD(), Name: "foreign", DirectAction: true,
		}); err != nil {
			l.tb.Fatal(err)
		}
	})
}

// Whatever hook a killed process used, the next start counts exactly. It leaves one program
// of ours and, in the end, none; a foreign filter survives it all.
func TestCrashIsCleanedUpByTheNextStart(t *testing.T) {
	for _, c := range []struct {
		before, after Hook
		left          string // after the crash
	}{
		{HookTCX, HookTCX, "foreign"},
		{HookClsact, HookClsact, "hikyaku-flows foreign"},
		{HookClsact, HookTCX, "hikyaku-flows foreign"},
	} {
		t.Run(fmt.Sprintf("%s then %s", c.before, c.after), func(t *testing.T) {
			l := newLab(t, 1600, func(*lab) {})
			l.addForeignFilter()
			l.crash(c.before)
			netnstest.Eventually(t, "filters after the crash: "+c.left, func() bool { return sameNames(l.filters(), c.left) })
			counter := l.attach(Options{MaxFlows: 1000, Hook: c.after})
			m := manners()[0]
			want := l.sendUDP(m)
			book := make(ledger)
			book.read(t, counter)
			if got := book[m.key(unix.IPPROTO_UDP)][Flow]; got != want {
				t.Errorf("counted %+v, sent %+v", got, want)
			}
			running := "foreign"
			if c.after == HookClsact {
				running = "hikyaku-flows foreign"
			}
			if got := l.filters(); !sameNames(got, running) {
				t.Errorf("filters while counting: %q, want %q", got, running)
			}
			if err := counter.Close(); err != nil {
				t.Error(err)
			}
			if got := l.filters(); !sameNames(got, "foreign") {
				t.Errorf("filters at the end: %q, want the foreign one alone", got)
			}
		})
	}
}

func sameNames(got []string, want string) bool {
	wanted := strings.Fields(want)
	if len(got) != len(wanted) {
		return false
	}
	for _, name := range wanted {
		if !strings.Contains(" "+strings.Join(got, " ")+" ", " "+name+" ") {
			return false
		}
	}
	return true
}

// Packets sent before Detach are read after it. Later packets are not counted, and
// detaching again or closing is no error.
func TestNothingIsLostOnDetach(t *testing.T) {
	for _, hook := range []Hook{HookTCX, HookClsact} {
		t.Run(hook.String(), func(t *testing.T) {
			l := newLab(t, 1600, func(*lab) {})
			c := l.attach(Options{MaxFlows: 1000, Hook: hook})
			want := l.sendUDP(manners()[0])
			if err := c.Detach(); err != nil {
				t.Fatal(err)
			}
			l.sendUDP(manners()[1])
			book := make(ledger)
			book.read(t, c)
			if got := book.all(); got != want {
				t.Errorf("counted %+v, sent %+v until detached", got, want)
			}
			if err := c.Detach(); err != nil {
				t.Errorf("detaching again: %v", err)
			}
		})
	}
}

func TestInterfaceThatVanishesIsNoErrorOnClose(t *testing.T) {
	for _, hook := range []Hook{HookTCX, HookClsact} {
		t.Run(hook.String(), func(t *testing.T) {
			l := newLab(t, 1600, func(*lab) {})
			c := l.attach(Options{MaxFlows: 1000, Hook: hook})
			l.server.IP("link del eth0")
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAttachRefusesImpossibleOptions(t *testing.T) {
	cases := []struct {
		name string
		opts Options
		want string
	}{
		{"no such interface", Options{Interface: "nonesuch0"}, "nonesuch0"},
		{"too many flows", Options{Interface: "lo", MaxFlows: LargestMaxFlows + 1}, "choose 1 to"},
		{"negative flows", Options{Interface: "lo", MaxFlows: -1}, "choose 1 to"},
		{"idle for less than ages", Options{Interface: "lo", Idle: time.Millisecond}, "at least 1s"},
	}
	for _, c := range cases {
		if counter, err := Attach(c.opts); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, error %v; want an error with %q", c.name, counter, err, c.want)
		}
	}
}
