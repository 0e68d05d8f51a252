// Package osthread runs code on threads that are changed for it, as by unshare(2), and end
// with it.
package osthread

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// Own runs f on a thread that ends afterwards, and waits for it. It is never the main thread,
// which ends with the process alone. A network namespace that f enters there would look to
// be the whole process's in /proc.
func Own(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if unix.Gettid() != unix.Getpid() {
			f() // never unlocked: the thread ends with this goroutine
			return
		}
		defer runtime.UnlockOSThread()
		// No other goroutine gets the main thread while this one has it.
		Own(f)
	}()
	<-done
}
