package osthread

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

func TestMainThreadStays(t *testing.T) {
	threads := make(map[int]bool)
	for range 200 {
		Own(func() { threads[unix.Gettid()] = true })
	}
	if threads[os.Getpid()] {
		t.Errorf("the main thread was taken: %v", threads)
	}
	if len(threads) < 2 {
		t.Errorf("threads did not end: %v", threads)
	}
}
