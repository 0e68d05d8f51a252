package kernel

// Verb is the action of an operation on its object.
type Verb uint8

// The verbs.
const (
	// Add creates the object and fails if anyone has one there ([ErrForeign]).
	Add Verb = iota + 1
	// Replace changes the object of ours in place, or creates it.
	Replace
	// Delete removes it; that it is already gone is no error.
	Delete
)

// Op is one change to the kernel.
type Op struct {
	Verb   Verb
	Object Object
}

// Object is one thing in the kernel: [Address], [Rule], [Route], [Nexthop] or
// [TunnelSource].
type Object interface {
	command(verb Verb, protocol uint8) string
}

// String returns the ip(8) command that does the same, marked with [Protocol].
func (o Op) String() string { return o.Command(Protocol) }

// Command returns the ip(8) command that does the same, marked with protocol.
func (o Op) Command(protocol uint8) string { return o.Object.command(o.Verb, protocol) }
