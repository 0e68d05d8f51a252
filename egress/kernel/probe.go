package kernel

import "context"

// Features says what this kernel can do, found by trying it.
type Features struct {
	// Missing explains each feature below that is false.
	Missing []Missing
	// NexthopObjects are needed for everything here (Linux 5.3).
	NexthopObjects bool
	// Seg6 is SRv6 encapsulation: a server needs it.
	Seg6 bool
	// Seg6Reduced is H.Encaps.Red (Linux 6.0).
	Seg6Reduced bool
	// EndDT6 is needed on a border.
	EndDT6 bool
	// EndDT6VRF, EndDT4 and EndDT46 look up by VRF device.
	EndDT6VRF, EndDT4, EndDT46 bool
	// VRF devices.
	VRF bool
	// AddressProtocol is IFA_PROTO, the mark of addresses (Linux 5.18).
	AddressProtocol bool
	// MPTCP sockets, and whether its path manager can be told by netlink.
	MPTCP bool
}

// Missing is a feature that this kernel lacks.
type Missing struct {
	// Feature is the name of the field in [Features].
	Feature string
	// Cause is what the kernel answered.
	Cause error
	// Consequence says what does not work and what still does.
	Consequence string
}

// Probe tries each feature in a network namespace of its own, which is gone when it
// returns; nothing else is touched. It needs CAP_SYS_ADMIN.
func Probe(ctx context.Context) (Features, error) { panic("todo") }
