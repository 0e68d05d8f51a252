package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestQuantilesAreOfNearestRank(t *testing.T) {
	var thousand []uint32
	for sample := range uint32(1000) {
		thousand = append(thousand, 1000-sample)
	}
	cases := []struct {
		name    string
		samples []uint32
		want    latency
	}{
		{"nothing", nil, latency{}},
		{"one", []uint32{7}, latency{7, 7, 7, 7, 7, 7}},
		{"two", []uint32{9, 1}, latency{5, 1, 9, 9, 9, 9}},
		{"thousand", thousand, latency{500.5, 500, 900, 990, 999, 1000}},
	}
	for _, c := range cases {
		if got := summarise(c.samples); got != c.want {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestFaultyArgumentsAreRefused(t *testing.T) {
	cases := map[string]string{
		"":                                    "name a mode",
		"fly":                                 "is no mode",
		"load":                                "name one URL",
		"load -requests 0 https://127.0.0.1/": "begin at 1",
		"load -rate -1 https://127.0.0.1/":    "-rate begins at 0",
		"load -http 1 -streams 2 https://127.0.0.1/": "one stream a connection",
		"load -http 4 https://127.0.0.1/":            "-http is 1, 2 or 3",
		"load -http 1 https://192.0.2.1/":            "no address of loopback",
	}
	for line, want := range cases {
		err := run(strings.Fields(line))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", line, err, want)
		}
	}
}

func TestEachRunTakesTheSameFiles(t *testing.T) {
	o := &options{url: "https://127.0.0.1/{}.bin", files: 50}
	seen := map[string]bool{}
	for number := range int64(1000) {
		if address(o, number) != address(o, number) {
			t.Fatalf("request %d has two files", number)
		}
		seen[address(o, number)] = true
	}
	if len(seen) != 50 {
		t.Errorf("%d of 50 files", len(seen))
	}
}

// A halt of the server must be visible in the answers to all requests of its time, not in one.
func TestOpenLoopCountsFromTheTimeThatARequestIsDue(t *testing.T) {
	const halt = 300 * time.Millisecond
	var served atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if served.Add(1) == 1 {
			time.Sleep(halt)
		}
	}))
	server.StartTLS()
	defer server.Close()
	o := &options{http: "1", connections: 1, streams: 1, requests: 60, rate: 200, files: 1, size: 0, url: server.URL}
	d, err := newDialer(o)
	if err != nil {
		t.Fatal(err)
	}
	connections, err := openAll(d, 1)
	if err != nil {
		t.Fatal(err)
	}
	late := func(play func(*tally)) int {
		served.Store(0)
		tally := tally{options: o}
		play(&tally)
		if tally.report.Failed > 0 || tally.report.Requests != o.requests {
			t.Fatalf("%+v", tally.report)
		}
		late := 0
		for _, sample := range tally.samples {
			if sample >= uint32(halt.Microseconds())/2 {
				late++
			}
		}
		return late
	}
	// Of 60 requests in 300 ms, at least those of the first half waited for half of the halt.
	if got := late(func(t *tally) { t.openLoop(connections, time.Now()) }); got < 30 {
		t.Errorf("%d late answers at a fixed rate", got)
	}
}

func TestSessionsAreResumed(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	for _, version := range []string{"1", "2"} {
		o := &options{http: version, files: 1, size: 0, url: server.URL}
		d, err := newDialer(o)
		if err != nil {
			t.Fatal(err)
		}
		d.config.ClientSessionCache = sessions()
		tally := tally{options: o}
		for range 3 {
			if err := tally.connectOnce(d); err != nil {
				t.Fatal(err)
			}
		}
		report := tally.report
		if report.Connections != 3 || report.Resumed != 2 || report.Failed != 0 {
			t.Errorf("HTTP/%s: %+v", version, report)
		}
	}
}
