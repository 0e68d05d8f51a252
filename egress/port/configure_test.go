package port

import (
	"testing"
	"time"
)

// A port that gets another configuration goes on from where it is.
func TestConfigure(t *testing.T) {
	c := Config{Number: 1, Kind: Transit, Price: 1000, Capacity: 1e9, Fill: 0.9, Percentile: true, Day: 1}
	p := New(c)
	now := time.Date(2026, 11, 3, 0, 0, 0, 0, time.UTC)
	observe := func(seconds int, rate float64) {
		for range seconds {
			now = now.Add(time.Second)
			p.Observe(now, time.Second, rate)
		}
	}
	observe(7*3600, 200e6)
	observe(30, 1e9)
	admitted := p.State().Admitted
	billed, _ := p.Billed()
	if admitted == All || billed == 0 {
		t.Fatalf("a full port admits %v and is billed %.0f bit/s", admitted, billed)
	}
	c.Capacity, c.Price, c.Commit = 10e9, 2000, 300e6
	p.Configure(c)
	if s := p.State(); s.Admitted != admitted || s.Price != 2000 {
		t.Errorf("another capacity changes the shares at once: %+v", s)
	}
	if after, _ := p.Billed(); after != 300e6 {
		t.Errorf("with a commitment of 300 Mbit/s the bill is %.0f bit/s, before %.0f", after, billed)
	}
	observe(3600, 1e9)
	if s := p.State(); s.Admitted != All {
		t.Errorf("an hour at a tenth of the new capacity leaves the shares %v", s.Admitted)
	}
	c.Commit = 0
	p.Configure(c)
	if after, _ := p.Billed(); after < billed {
		t.Errorf("without the commitment the bill falls to %.0f bit/s from %.0f", after, billed)
	}
	c.Percentile = false
	p.Configure(c)
	if _, depends := p.Billed(); depends || p.State().Billed != All {
		t.Errorf("a flat bill: depends %v, %+v", depends, p.State())
	}
	c.Percentile = true
	p.Configure(c)
	if after, depends := p.Billed(); !depends || after != 0 {
		t.Errorf("a bill that begins has %.0f bit/s", after)
	}
}
