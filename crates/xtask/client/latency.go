package main

import (
	"slices"
	"time"
)

// The distribution of answers' times, in microseconds.
type latency struct {
	Mean float64 `json:"mean"`
	P50  uint32  `json:"p50"`
	P90  uint32  `json:"p90"`
	P99  uint32  `json:"p99"`
	P999 uint32  `json:"p999"`
	Max  uint32  `json:"max"`
}

// Summarises samples in microseconds, and sorts them.
func summarise(samples []uint32) latency {
	if len(samples) == 0 {
		return latency{}
	}
	slices.Sort(samples)
	var sum uint64
	for _, sample := range samples {
		sum += uint64(sample)
	}
	return latency{
		Mean: float64(sum) / float64(len(samples)),
		P50:  quantile(samples, 500),
		P90:  quantile(samples, 900),
		P99:  quantile(samples, 990),
		P999: quantile(samples, 999),
		Max:  samples[len(samples)-1],
	}
}

// Returns the smallest sample that is at least as large as perMille of a thousand are (nearest
// rank).
func quantile(sorted []uint32, perMille int) uint32 {
	rank := (len(sorted)*perMille + 999) / 1000
	return sorted[max(rank, 1)-1]
}

func micros(since time.Duration) uint32 {
	return uint32(min(max(since.Microseconds(), 0), 1<<32-1))
}
