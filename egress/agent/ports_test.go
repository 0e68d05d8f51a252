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
	p := all[0]
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
	if after, _ := again[0].plan.Billed(); after != before || after == 0 {
		t.Errorf("the bill of %.0f bit/s became one of %.0f", before, after)
	}
	if err := os.WriteFile(filepath.Join(dir, billsFile), []byte("[1]"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := newPorts(list, dir); err == nil || !strings.Contains(err.Error(), billsFile) {
		t.Errorf("a file that is no bill gives %v", err)
	}
}
