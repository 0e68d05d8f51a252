package port

// Class is what a kind of content wants of its route, as the edge server's classes do.
type Class uint8

// The classes, in the order in which they leave a port that is full.
const (
	// Goodput is bulk.
	Goodput Class = iota
	// Stall is live content.
	Stall
	// RTT is interactive content.
	RTT
	// Classes is how many there are.
	Classes = 3
)

// Whole is the share of all clients. A port may be a hundredth of what its servers send.
const Whole = 128

// Shares are the clients that may use a port, by class, 0 for none to [Whole].
type Shares [Classes]uint8

// All lets every client use the port.
var All = Shares{Whole, Whole, Whole}

// Kind is the kind of neighbours that a port leads to.
type Kind string

// The kinds.
const (
	Peering Kind = "peering"
	Transit Kind = "transit"
)

// State is a port as its border publishes it.
type State struct {
	// Number of the port at its border, from 1 up.
	Number uint8
	Kind   Kind
	// Price of a Mbit/s for a month, in thousandths.
	Price uint32
	// Admitted are the clients that may use the port: the others would fill it.
	Admitted Shares
	// Billed are the clients whose traffic is billed anyway. That of the others raises the
	// bill, so they prefer another route of the same quality.
	Billed Shares
	// Spare is how much of the time the traffic of the others raises no bill either, 0 to
	// [MaxSpare]. For a 95th percentile leaves out a month's highest intervals. Of ports with
	// one price they come to the one that has most of it left.
	Spare uint8
}

// maxLevel is the level of a port that all clients may use.
const maxLevel = 2 * Whole

// sharesOf are the shares of a level. From the highest down, content that wants goodput
// leaves first, then the rest.
func sharesOf(level int) Shares {
	bulk, rest := uint8(max(level-Whole, 0)), uint8(min(level, Whole))
	return Shares{Goodput: bulk, Stall: rest, RTT: rest}
}
