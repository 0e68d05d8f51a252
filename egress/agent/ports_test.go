package agent

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hikyaku/egress/config"
)

// Counters become rates, and the bill outlives the process.
func TestPortsCountAndRemember(t *testing.T) {
	dir := t.TempDir()
	list := []config.Port{{
		Name: "transit", Number: 1, Interface: "eth1", Capacity: 1e9, Fill: 90, Kind: config.PortTransit,
		Price: 1000, Billing: config.BillingPercentile, BillingDay: 1,
	}}
	all, err := newPorts(list, dir)
	if err != nil {
		t.Fatal(err)
	}
	p := all.list[0]
	now := time.Date(2026, 11, 3, 0, 0, 0, 0, time.UTC)
	var sent uint64
	ended := 0
	observe := func(seconds int, bytesPerSecond uint64) {
		for range seconds {
			sent, now = sent+bytesPerSecond, now.Add(time.Second)
			if p.take(reading{sent: sent}, now) {
				ended++
			}
		}
	}
	observe(7*3600, 25e6)
	if rate := p.plan.Rate(); rate != 200e6 {
		t.Errorf("25 MB in a second are %.0f bit/s", rate)
	}
	sent = 0 // a new interface of the name
	observe(1, 1e6)
	if rate := p.plan.Rate(); rate != 200e6 {
		t.Errorf("a counter that began anew counts as %.0f bit/s", rate)
	}
	p.take(reading{err: errors.New("no such device")}, now)
	if got := all.problems(); len(got) != 1 || !strings.Contains(got[0], "no such device") {
		t.Errorf("a port whose interface is gone has the problems %q", got)
	}
	observe(30, 125e6)
	if p.plan.State().Admitted[0] == 128 {
		t.Error("half a minute of a full port keeps no client off it")
	}
	if ended < 80 {
		t.Errorf("%d intervals of five minutes have ended in seven hours", ended)
	}
	if err := all.save(dir); err != nil {
		t.Fatal(err)
	}
	again, err := newPorts(list, dir)
	if err != nil {
		t.Fatal(err)
	}
	before, _ := p.plan.Billed()
	if after, _ := again.list[0].plan.Billed(); after != before || after == 0 {
		t.Errorf("the bill of %.0f bit/s became one of %.0f", before, after)
	}
	if err := os.WriteFile(filepath.Join(dir, billsFile), []byte("[1]"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := newPorts(list, dir); err == nil || !strings.Contains(err.Error(), billsFile) {
		t.Errorf("a file that is no bill gives %v", err)
	}
}

// A port that is taken out of the configuration comes back with its bill, also after a restart.
func TestPortsComeAndGo(t *testing.T) {
	dir := t.TempDir()
	kept := config.Port{Name: "kept", Number: 1, Interface: "eth1", Capacity: 1e9, Fill: 90, BillingDay: 1, Billing: config.BillingPercentile, Price: 1}
	gone := kept
	gone.Name, gone.Number, gone.Interface = "gone", 2, "eth2"
	all, err := newPorts([]config.Port{kept, gone}, dir)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 3, 0, 0, 0, 0, time.UTC)
	for i := range 7 * 3600 {
		for _, p := range all.list {
			p.take(reading{sent: uint64(i) * 25e6}, now.Add(time.Duration(i)*time.Second))
		}
	}
	billed := func(p ports, name string) float64 {
		rate, _ := p.named(name).plan.Billed()
		return rate
	}
	want := billed(all, "gone")
	if want == 0 {
		t.Fatal("seven hours have no bill")
	}
	moved := kept
	moved.Interface, moved.Capacity = "eth3", 2e9
	all.take([]config.Port{moved})
	if len(all.list) != 1 || billed(all, "kept") != want || all.list[0].at != (time.Time{}) {
		t.Errorf("after a move: %d ports, a bill of %.0f bit/s, and the counter was read at %v", len(all.list), billed(all, "kept"), all.list[0].at)
	}
	if err := all.save(dir); err != nil {
		t.Fatal(err)
	}
	again, err := newPorts([]config.Port{moved}, dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []ports{all, again} {
		p.take([]config.Port{moved, gone})
		if got := billed(p, "gone"); got != want || len(p.idle) != 0 {
			t.Errorf("the port comes back with a bill of %.0f bit/s, want %.0f; %d bills are idle", got, want, len(p.idle))
		}
	}
}
