package config

// File is a configuration of either role; exactly one of Border and Server is
// set.
type File struct {
	Border *Border
	Server *Server
}

// Common returns what both roles have.
func (f *File) Common() *Common {
	if f.Border != nil {
		return &f.Border.Common
	}
	return &f.Server.Common
}

// Load reads and checks the file at path, of whichever role it says.
//
// The error is a *[Errors] where the text is wrong; it holds all that is.
func Load(path string) (*File, error) { panic("not yet") }

// LoadBorder is [Load] for a file that must be a border's.
func LoadBorder(path string) (*Border, error) { panic("not yet") }

// LoadServer is [Load] for a file that must be a server's.
func LoadServer(path string) (*Server, error) { panic("not yet") }

// Parse is [Load] of a text; name is the file's, for messages.
func Parse(name string, text []byte) (*File, error) { panic("not yet") }

// DefaultBorder returns what an empty file of a border means.
func DefaultBorder() Border { panic("not yet") }

// DefaultServer returns what an empty file of a server means.
func DefaultServer() Server { panic("not yet") }

// ReadPassword returns the first line of a session's password file. It must not
// be readable by others, and has 1 to 80 bytes (Linux's TCP_MD5SIG_MAXKEYLEN).
func ReadPassword(path string) (string, error) { panic("not yet") }
