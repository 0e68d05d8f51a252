package mptcp

// Names and numbers of include/uapi/linux/mptcp_pm.h and mptcp.h.
const (
	familyName  = "mptcp_pm"
	eventsGroup = "mptcp_pm_events"

	cmdAddAddr        = 1
	cmdDelAddr        = 2
	cmdGetAddr        = 3
	cmdSetLimits      = 5
	cmdGetLimits      = 6
	cmdSetFlags       = 7
	cmdAnnounce       = 8
	cmdRemove         = 9
	cmdSubflowCreate  = 10
	cmdSubflowDestroy = 11

	attrAddr        = 1
	attrRcvAddAddrs = 2
	attrSubflows    = 3
	attrToken       = 4
	attrLocID       = 5
	attrAddrRemote  = 6

	addrFamily  = 1
	addrID      = 2
	addrIPv4    = 3
	addrIPv6    = 4
	addrPort    = 5
	addrFlags   = 6
	addrIfIndex = 7

	flagSignal   = 1 << 0
	flagSubflow  = 1 << 1
	flagBackup   = 1 << 2
	flagFullmesh = 1 << 3
	flagImplicit = 1 << 4

	evToken       = 1
	evFamily      = 2
	evLocID       = 3
	evRemID       = 4
	evSaddr4      = 5
	evSaddr6      = 6
	evDaddr4      = 7
	evDaddr6      = 8
	evSport       = 9
	evDport       = 10
	evBackup      = 11
	evError       = 12
	evFlags       = 13
	evIfIndex     = 15
	evResetReason = 16
	evServerSide  = 18

	// From 6.18 on the flag replaces the attribute evServerSide.
	evFlagServerSide = 1 << 1
)
