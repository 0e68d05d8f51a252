package api

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// openDir returns a directory that every user may enter, unlike t.TempDir's.
func openDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "egress-api")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func mustListen(t *testing.T, s Socket) net.Listener {
	t.Helper()
	listener, err := s.Listen()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	return listener
}

// connectAs connects as another user, for whom only this thread stands: file
// systems look at the thread's own identity.
func connectAs(uid, gid uintptr, path string) error {
	result := make(chan error)
	go func() {
		// Never unlocked, so that the thread ends with the goroutine.
		runtime.LockOSThread()
		if _, _, errno := syscall.RawSyscall(syscall.SYS_SETGROUPS, 0, 0, 0); errno != 0 {
			result <- fmt.Errorf("setgroups: %w", errno)
			return
		}
		syscall.RawSyscall(syscall.SYS_SETFSGID, gid, 0, 0)
		syscall.RawSyscall(syscall.SYS_SETFSUID, uid, 0, 0)
		conn, err := net.Dial("unix", path)
		if err == nil {
			conn.Close()
		}
		result <- err
	}()
	return <-result
}

func TestWhoMayConnect(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("SKIPPED: only root can act as other users")
	}
	const user, group, other = 40001, 40002, 40003
	cases := []struct {
		name     string
		mode     fs.FileMode
		group    string
		uid, gid uintptr
		may      bool
	}{
		{"root", 0o600, "", 0, 0, true},
		{"another user", 0o600, "", user, other, false},
		{"another user of the group", 0o660, fmt.Sprint(group), user, group, true},
		{"another user of another group", 0o660, fmt.Sprint(group), user, other, false},
		{"the group where only the owner may", 0o600, fmt.Sprint(group), user, group, false},
		{"everybody where everybody may", 0o666, "", user, other, true},
	}
	for _, c := range cases {
		path := filepath.Join(openDir(t), "api.sock")
		listener := mustListen(t, Socket{Path: path, Mode: c.mode, Group: c.group})
		err := connectAs(c.uid, c.gid, path)
		if may := err == nil; may != c.may || (!may && !errors.Is(err, fs.ErrPermission)) {
			t.Errorf("%s: %v, may connect: %t", c.name, err, c.may)
		}
		listener.Close()
	}
}

func TestSocketIsBornForItsOwner(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	path := filepath.Join(t.TempDir(), "api.sock")
	config := net.ListenConfig{Control: ownerOnly}
	listener, err := config.Listen(context.Background(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v, want 0600 whatever the umask is", info.Mode(), err)
	}
}

func TestSocketReplacesTheOneOfACrash(t *testing.T) {
	if path := os.Getenv("EGRESS_API_TEST_SOCKET"); path != "" {
		mustListen(t, Socket{Path: path, Mode: 0o600})
		fmt.Println("listening")
		time.Sleep(time.Hour) // Until it is killed.
	}
	path := filepath.Join(t.TempDir(), "api.sock")
	child := exec.Command(os.Args[0], "-test.run=^TestSocketReplacesTheOneOfACrash$")
	child.Env = append(os.Environ(), "EGRESS_API_TEST_SOCKET="+path)
	output, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { child.Process.Kill() })
	if _, err := output.Read(make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	_, err = Socket{Path: path, Mode: 0o600}.Listen()
	want := "opening the API's socket " + path + ": another hikyaku-egress serves there: stop it, or set another `api.socket`"
	if err == nil || err.Error() != want {
		t.Errorf("while another process serves: %v, want %s", err, want)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	child.Wait()
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("the crash left no socket, so nothing is tested: %v", err)
	}
	listener := mustListen(t, Socket{Path: path, Mode: 0o600})
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatalf("after the crash: %v", err)
	}
	conn.Close()
	listener.Close()
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("closing left the socket: %v", err)
	}
	if err := listener.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("closing twice: %v", err)
	}
	mustListen(t, Socket{Path: path, Mode: 0o600})
}

func TestSocketsThatCannotBe(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("keep"), 0o600); err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		name   string
		socket Socket
		want   string
	}{
		{"a file", Socket{Path: file}, "there is a file that is no socket: remove it, or set another `api.socket`"},
		{"a directory that is a file", Socket{Path: file + "/api.sock"}, "mkdir " + file + ": not a directory"},
		{"a group that is not there", Socket{Path: dir + "/a", Group: "nosuchgroup"}, "there is no group `nosuchgroup`: make it, or set another `api.group`"},
		{"a path that is too long", Socket{Path: dir + "/" + strings.Repeat("x", 108)}, "listen unix PATH: bind: invalid argument"},
	}
	for _, c := range cases {
		_, err := c.socket.Listen()
		want := "opening the API's socket " + c.socket.Path + ": " + strings.ReplaceAll(c.want, "PATH", c.socket.Path)
		if err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", c.name, err, want)
		}
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "keep" {
		t.Errorf("the file was touched: %q, %v", text, err)
	}
	if _, err := os.Stat(dir + "/a"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a socket that nobody serves was left: %v", err)
	}
}
