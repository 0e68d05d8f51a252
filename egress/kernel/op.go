package kernel

// Verb is what an operation does to its object.
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

// String returns the ip(8) command that does the same, with our protocol number.
func (o Op) String() string { panic("todo") }
