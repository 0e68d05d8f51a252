package mptcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func TestManagerRetriesAFailedCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFakeKernel()
		k.refuse(syscall.ENOMEM)
		k.run(t, aggregatedConfig(t))
		k.happen(created, settled)
		expect(t, "at once", k.took(), announceB)
		time.Sleep(retryFirst)
		expect(t, "after a second", k.took(), announceB)
		k.refuse(nil)
		time.Sleep(2 * retryFirst)
		expect(t, "after two more", k.took(), announceB)
		time.Sleep(time.Hour)
		expect(t, "after success", k.took())
	})
	synctest.Test(t, func(t *testing.T) {
		k := newFakeKernel()
		k.refuse(syscall.ENOMEM)
		k.run(t, aggregatedConfig(t))
		k.happen(created, settled)
		time.Sleep(time.Hour)
		if n := len(k.took()); n != 1+retryAttempts {
			t.Errorf("a command that always fails was tried %d times, want %d", n, 1+retryAttempts)
		}
	})
}

func TestFailuresDoNotFloodTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFakeKernel()
		k.refuse(syscall.ENOMEM)
		var log strings.Builder
		m, err := newManager(aggregatedConfig(t), k, k)
		must(t, err)
		m.log = slog.New(slog.NewTextHandler(&log, nil))
		fail := func(connections int) {
			for n := range connections {
				e := settled
				e.Token, e.Remote = Token(n+1), netip.AddrPortFrom(clientAddr.Addr(), uint16(n+1))
				m.onEvent(e, time.Now())
			}
		}
		fail(1000)
		time.Sleep(time.Second)
		fail(1)
		if lines := strings.Count(log.String(), "\n"); lines != 2 || !strings.Contains(log.String(), "unlogged=999") {
			t.Errorf("%d lines for 1001 failures, want 2 and how many there were:\n%.500s", lines, log.String())
		}
	})
}

func TestManagerReadsAnewAfterAnOverrun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFakeKernel()
		m := k.run(t, aggregatedConfig(t))
		k.happen(created, settled, joinB)
		m.SetHint(1, Hint{Class: "bulk"})
		k.took()
		c := at("2001:db8:1::1") // the same connection, whose second subflow was lost unseen
		other := at("2001:db8:1::2")
		other.Token = 2
		k.connections = []Connection{*c, *other}
		k.announced = map[Token][]Announcement{1: {{ID: 3, Addr: epeB}}, 2: {}}
		k.events <- batch{err: ErrOverrun}
		expect(t, "after the overrun", k.took(), "announce 2001:db8:5::b id 3 token 00000002")
		all := m.Connections()
		if len(all) != 2 || all[0].Hint.Class != "bulk" || all[0].Adopted || !all[1].Adopted || len(all[0].Subflows) != 1 {
			t.Errorf("after the overrun the connections are %+v", all)
		}
	})
}

func TestManagerGoesOnAfterItLostTheKernel(t *testing.T) {
	for name, lose := range map[string]func(*fakeKernel){
		"events cannot be received": func(k *fakeKernel) {
			k.fail(syscall.EMFILE, nil)
			k.events <- batch{err: syscall.EIO}
		},
		"connections cannot be read after an overrun": func(k *fakeKernel) {
			k.fail(nil, syscall.EMFILE)
			k.events <- batch{err: ErrOverrun}
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			k := newFakeKernel()
			m := k.run(t, aggregatedConfig(t))
			k.happen(created, settled, joinB)
			m.SetHint(1, Hint{Class: "bulk"})
			k.took()
			c := at("2001:db8:1::1") // the same connection, whose second subflow was lost unseen
			k.connections = []Connection{*c}
			k.announced = map[Token][]Announcement{1: {{ID: 3, Addr: epeB}}}
			lose(k)
			time.Sleep(time.Minute)
			if got := m.Problems(); len(got) != 1 || !strings.Contains(got[0], syscall.EMFILE.Error()) {
				t.Errorf("%s: problems %q, want one with the cause", name, got)
			}
			if k.opened < 10 || k.opened > 15 {
				t.Errorf("%s: opened %d times in a minute, want 10 to 15", name, k.opened)
			}
			m.SetHint(1, Hint{Class: "live"})
			must(t, m.SetPaths(labPaths(PathUp, PathUp, PathUp)))
			m.Reconsider()
			expect(t, name+", meanwhile", k.took())

			k.fail(nil, nil)
			time.Sleep(reopenLast + retryFirst)
			expect(t, name+", back", k.took(), "announce 2001:db8:5::c id 5 token 00000001",
				"remove id 3 token 00000001", announceB) // for the subflow that was lost
			if got := m.Problems(); len(got) != 0 {
				t.Errorf("%s: afterwards there are the problems %q", name, got)
			}
			if all := m.Connections(); len(all) != 1 || all[0].Hint.Class != "live" || all[0].Adopted || len(all[0].Subflows) != 1 {
				t.Errorf("%s: afterwards the connections are %+v", name, all)
			}
			k.happen(joinB, lostB)
			time.Sleep(2 * retryFirst)
			expect(t, name+", events come again", k.took(), "remove id 3 token 00000001", announceB)
		})
	}
}

func TestManagerThatEndsWithoutTheKernelSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFakeKernel()
		m, err := newManager(Config{Logger: slog.New(slog.DiscardHandler)}, k, k)
		must(t, err)
		m.open = k.open
		k.fail(syscall.EMFILE, nil)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- m.Run(ctx) }()
		k.events <- batch{err: syscall.EIO}
		time.Sleep(time.Second)
		cancel()
		if err := <-ended; !errors.Is(err, ErrLost) || !errors.Is(err, syscall.EIO) {
			t.Errorf("it ends with %v, want %v and the cause", err, ErrLost)
		}
	})
}

func TestManagerGoesOnAfterAnEventThatIsNotUnderstood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFakeKernel()
		m := k.run(t, aggregatedConfig(t))
		k.events <- batch{err: fmt.Errorf("%w: of a kernel to come", ErrUndecodable)}
		k.happen(created, settled, joinB)
		k.took()
		if all := m.Connections(); len(all) != 1 || len(all[0].Subflows) != 2 {
			t.Errorf("after the event the connections are %+v", all)
		}
	})
}

func TestManagerOnAKernelThatDoesNotReportAnnouncements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFakeKernel()
		k.announceErr = ErrUnsupported
		c := at("2001:db8:1::1")
		c.Subflows = append(c.Subflows, Subflow{Local: joinB.Local, Remote: joinB.Remote, LocalID: 7})
		k.connections = []Connection{*c}
		m := k.run(t, aggregatedConfig(t))
		expect(t, "a joined address is taken for announced", k.took())
		must(t, m.SetPaths(labPaths(PathUp, PathDown)))
		expect(t, "path down", k.took(), "remove id 7 token 00000001",
			"destroy subflow [2001:db8:5::b]:443 to [2001:db8:1::1]:40001 token 00000001")
	})
}
