package session

import (
	"io"
	"net"
	"testing"
	"time"
)

func TestReflectorMayReadATableForLongerThanTheHoldTime(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	reader, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	// Neither buffer holds it all.
	const size, hold = 64 << 20, 2 * time.Second
	read := make(chan int64)
	go func() {
		var total int64
		for range 8 {
			n, _ := io.CopyN(io.Discard, reader, size/8)
			total += n
			time.Sleep(hold / 4)
		}
		read <- total
	}()
	begin := time.Now()
	if n, err := (patientWriter{conn, hold}).Write(make([]byte, size)); err != nil || n != size {
		t.Errorf("%d of %d bytes were written: %v", n, size, err)
	}
	if total := <-read; total != size || time.Since(begin) < hold {
		t.Errorf("%d bytes were read in %s", total, time.Since(begin))
	}
}

func TestWriterWhoseNeighbourTakesNothing(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, err = (patientWriter{conn, 50 * time.Millisecond}).Write(make([]byte, 64<<20)) // more than buffers hold
	if got := endOf(err); got.Cause != EndHoldTimer {
		t.Errorf("the write ended with %+v", got)
	}
}
