package rtr

import (
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	first  = "2a00:501::/32-40 => AS64496; "
	second = "2a00:502::/32-32 => AS64497; "
)

func TestDataFollowTheCache(t *testing.T) {
	c := newFakeCache(t)
	w := watch(t, c, nil)
	d := c.accept()
	d.expect(1, resetQuery)
	d.send(raw(1, serialNotify, 7, words(1)...), // waits for the answer
		raw(1, cacheResponse, 7), prefixPDU(1, 1, "2a00:501::/32", 40, 64496), prefixPDU(1, 1, "193.0.0.0/16", 24, 64498),
		raw(1, routerKey, 0x0100, make([]byte, 60)...), raw(1, endOfData, 7, words(5, 3600, 600, 7200)...))
	w.waitFor("193.0.0.0/16-24 => AS64498; " + first)
	d.send(raw(1, serialNotify, 7, words(6)...))
	if got := d.expect(1, serialQuery); !slices.Equal(got, raw(1, serialQuery, 7, words(5)...)) {
		t.Fatalf("asked %x", got)
	}
	d.send(raw(1, cacheResponse, 7), prefixPDU(1, 0, "193.0.0.0/16", 24, 64498), prefixPDU(1, 1, "2a00:502::/32", 32, 64497),
		raw(1, endOfData, 7, words(6, 3600, 600, 7200)...))
	w.waitFor(first + second)
	if s := w.Status(); !s.Up || s.Version != 1 || s.VRPs != 2 || s.Serial != 6 || s.Error != "" || s.Expires.Sub(s.Updated) != 2*time.Hour {
		t.Errorf("status %+v", s)
	}
	// A cache that restarts has another session. Its former data stay until all has come.
	d.conn.Close()
	d = c.accept()
	if got := d.expect(1, serialQuery); !slices.Equal(got, raw(1, serialQuery, 7, words(6)...)) {
		t.Fatalf("asked %x", got)
	}
	d.send(raw(1, cacheReset, 0))
	d.expect(1, resetQuery)
	d.send(raw(1, cacheResponse, 8), prefixPDU(1, 1, "2a00:502::/32", 32, 64497), raw(1, endOfData, 8, words(1, 1, 600, 7200)...))
	w.waitFor(second)
	if len(w.sets) != 3 {
		t.Errorf("VRPs changed to %q", w.sets)
	}
	d.expect(1, serialQuery) // the refresh interval was 1 s
}

func TestOlderCaches(t *testing.T) {
	for name, answer := range map[string]func(*fakeCache, *dialogue) *dialogue{
		"an error report": func(c *fakeCache, d *dialogue) *dialogue {
			d.send(errorPDU(0, unsupportedVersion, "version 0 only"))
			d.expectEnd()
			d = c.accept()
			d.expect(0, resetQuery)
			return d
		},
		"an answer of version 0": func(_ *fakeCache, d *dialogue) *dialogue { return d },
	} {
		t.Run(name, func(t *testing.T) {
			c := newFakeCache(t)
			w := watch(t, c, func(config *Config) { config.Refresh = 50 * time.Millisecond })
			d := c.accept()
			d.expect(1, resetQuery)
			d = answer(c, d)
			d.send(raw(0, cacheResponse, 9), prefixPDU(0, 1, "2a00:501::/32", 40, 64496), raw(0, endOfData, 9, words(1)...))
			w.waitFor(first)
			d.expect(0, serialQuery) // by the configured refresh interval
			if s := w.Status(); s.Version != 0 || !s.Up {
				t.Errorf("status %+v", s)
			}
			d.conn.Close()
			c.accept().expect(1, serialQuery) // it may be a newer one now
		})
	}
}

func TestDataExpire(t *testing.T) {
	c := newFakeCache(t)
	w := watch(t, c, func(config *Config) { config.Expire = 300 * time.Millisecond })
	d := c.accept()
	d.expect(1, resetQuery)
	d.send(raw(0, cacheResponse, 9), prefixPDU(0, 1, "2a00:501::/32", 40, 64496), raw(0, endOfData, 9, words(1)...))
	w.waitFor(first)
	c.listener.Close()
	d.conn.Close()
	w.waitUntil(func() bool { return w.Status().Error != "" }, "end of the connection")
	w.waitFor("")
	if s := w.Status(); s.VRPs != 0 || s.Up || !s.Updated.IsZero() {
		t.Errorf("status %+v", s)
	}
}

func TestFaultsOfCaches(t *testing.T) {
	begun := raw(1, cacheResponse, 7)
	one := prefixPDU(1, 1, "2a00:501::/32", 40, 64496)
	end := raw(1, endOfData, 7, words(1, 3600, 600, 7200)...)
	for _, c := range []struct {
		name string
		send [][]byte
		code byte // of the client's error report
	}{
		{"an announcement twice", [][]byte{begun, one, one, end}, duplicateAnnouncement},
		{"a withdrawal of nothing", [][]byte{begun, prefixPDU(1, 0, "2a00:501::/32", 40, 64496), end}, withdrawalOfUnknown},
		{"a prefix without an answer", [][]byte{one}, corruptData},
		{"an end without an answer", [][]byte{end}, corruptData},
		{"the end of another session", [][]byte{begun, raw(1, endOfData, 8, words(1, 1, 1, 1)...)}, corruptData},
		{"an answer within an answer", [][]byte{begun, begun}, corruptData},
		{"a reset without need", [][]byte{raw(1, cacheReset, 0)}, corruptData},
		{"a maximum length below the length", [][]byte{begun, prefixPDU(1, 1, "2a00:501::/32", 31, 1)}, corruptData},
		{"a length above the family's", [][]byte{begun, prefixPDU(1, 1, "2a00:501::/32", 129, 1)}, corruptData},
		{"bits behind the prefix", [][]byte{begun, raw(1, ipv4Prefix, 0, append([]byte{1, 8, 8, 0, 10, 1, 0, 0}, words(1)...)...)}, corruptData},
		{"a short prefix", [][]byte{begun, raw(1, ipv4Prefix, 0, 1, 8, 8, 0)}, corruptData},
		{"a length of less than a header", [][]byte{{1, 3, 0, 7, 0, 0, 0, 7}}, corruptData},
		{"a PDU of 4 GB", [][]byte{{1, 10, 0, 7, 0xff, 0xff, 0xff, 0xff}}, corruptData},
		{"an unknown type", [][]byte{raw(1, 77, 0)}, unsupportedPDU},
		{"another version within a connection", [][]byte{begun, prefixPDU(0, 1, "2a00:501::/32", 40, 64496)}, unexpectedVersion},
		{"a newer version", [][]byte{raw(2, cacheResponse, 7)}, unexpectedVersion},
	} {
		t.Run(c.name, func(t *testing.T) {
			cache := newFakeCache(t)
			w := watch(t, cache, nil)
			d := cache.accept()
			d.expect(1, resetQuery)
			d.send(c.send...)
			if got := d.expect(1, errorReport); got[3] != c.code {
				t.Errorf("error %d, want %d: %q", got[3], c.code, got)
			}
			d.expectEnd()
			d = cache.accept()
			d.expect(1, resetQuery)
			d.send(begun, one, end)
			w.waitFor(first)
			if len(w.sets) != 1 {
				t.Errorf("VRPs changed to %q", w.sets)
			}
		})
	}
}

func TestCacheWithoutDataIsAskedAgain(t *testing.T) {
	c := newFakeCache(t)
	w := watch(t, c, nil)
	d := c.accept()
	d.expect(1, resetQuery)
	d.send(errorPDU(1, noDataAvailable, ""))
	d.expectEnd()
	d = c.accept()
	d.expect(1, resetQuery)
	if s := w.Status(); s.Up || !strings.Contains(s.Error, "no data yet") {
		t.Errorf("status %+v", s)
	}
}

func FuzzPDU(f *testing.F) {
	for _, seed := range [][]byte{
		raw(1, cacheResponse, 7), raw(1, endOfData, 7, words(1, 3600, 600, 7200)...), raw(0, endOfData, 7, words(1)...),
		prefixPDU(1, 1, "2a00:501::/32", 40, 64496), prefixPDU(0, 0, "193.0.0.0/16", 24, 1), raw(1, serialNotify, 7, words(1)...),
		raw(1, routerKey, 0x0100, make([]byte, 60)...), errorPDU(1, 2, "no data"), raw(1, errorReport, 0, words(0xffffffff)...),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := parsePDU(b)
		if err != nil || p.kind != ipv4Prefix && p.kind != ipv6Prefix {
			return
		}
		if q := p.vrp.Prefix(); q != q.Masked() || int(p.vrp.MaxLength()) < q.Bits() || int(p.vrp.MaxLength()) > q.Addr().BitLen() {
			t.Errorf("%x is %s", b, p.vrp)
		}
	})
}
