package config

import (
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
)

// File is a configuration of either role; exactly one of Border and Server is
// set.
type File struct {
	Border *Border
	Server *Server
}

// Common returns the keys that both roles have.
func (f *File) Common() *Common {
	if f.Border != nil {
		return &f.Border.Common
	}
	return &f.Server.Common
}

// Load reads and checks the file at path, of whichever role it says.
//
// The error is a *[Errors] where the text is wrong; it holds all that is.
func Load(path string) (*File, error) {
	source, err := ReadSource(path)
	if err != nil {
		return nil, err
	}
	return source.Parse()
}

// LoadBorder is [Load] for a file that must be a border's.
func LoadBorder(path string) (*Border, error) {
	file, err := Load(path)
	if err != nil {
		return nil, err
	}
	if file.Border == nil {
		return nil, wrongRole(path, RoleServer)
	}
	return file.Border, nil
}

// LoadServer is [Load] for a file that must be a server's.
func LoadServer(path string) (*Server, error) {
	file, err := Load(path)
	if err != nil {
		return nil, err
	}
	if file.Server == nil {
		return nil, wrongRole(path, RoleBorder)
	}
	return file.Server, nil
}

func wrongRole(path string, role Role) error {
	return fmt.Errorf("%s has `role = %q`: start it with `hikyaku-egress %s`, or give another file",
		path, role, role)
}

// Parse is [Load] of a text; name is the file's, for messages.
func Parse(name string, text []byte) (*File, error) {
	root, syntax := parseDocument(text)
	if syntax != nil {
		return nil, &Errors{name, []Problem{*syntax}}
	}
	d := newDecoder(text)
	file := &File{}
	switch d.role(root) {
	case RoleBorder:
		border := DefaultBorder()
		d.table(root, reflect.ValueOf(&border).Elem(), "")
		border.resolve()
		d.checkBorder(&border)
		file.Border = &border
	case RoleServer:
		server := DefaultServer()
		d.table(root, reflect.ValueOf(&server).Elem(), "")
		server.resolve()
		d.checkServer(&server)
		file.Server = &server
	}
	if len(d.problems) > 0 {
		sortProblems(d.problems)
		return nil, &Errors{name, d.problems}
	}
	return file, nil
}

// role reads the role that the file is for, since that decides which keys there are.
// Without a right one nothing else can be judged.
func (d *decoder) role(root *node) Role {
	n := root.get("role")
	if n == nil {
		d.report("role", "`role` is missing: say `role = \"border\"` or `role = \"server\"`")
		return ""
	}
	var role Role
	d.value(n, reflect.ValueOf(&role).Elem(), "role")
	return role
}

// maxPassword is Linux's TCP_MD5SIG_MAXKEYLEN.
const maxPassword = 80

// ReadPassword returns the first line of a session's password file. It must not
// be accessible to others than owner and group, and has 1 to 80 bytes (Linux's
// TCP_MD5SIG_MAXKEYLEN).
func ReadPassword(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("reading the BGP password: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return "", fmt.Errorf("reading the BGP password: %w", err)
	}
	if info.Mode().Perm()&0o007 != 0 {
		return "", fmt.Errorf("reading the BGP password: everybody may use %s: run `chmod o= %s`", path, path)
	}
	text, err := io.ReadAll(io.LimitReader(file, 4096))
	if err != nil {
		return "", fmt.Errorf("reading the BGP password: %w", err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	line = strings.TrimSuffix(line, "\r")
	if len(line) == 0 || len(line) > maxPassword {
		return "", fmt.Errorf("reading the BGP password: the first line of %s has %d bytes, TCP MD5 takes 1 to %d",
			path, len(line), maxPassword)
	}
	return line, nil
}
