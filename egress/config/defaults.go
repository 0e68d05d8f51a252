package config

import "time"

// DefaultBorder returns the meaning of an empty file of a border.
func DefaultBorder() Border {
	return Border{
		Common: defaultCommon(RoleBorder),
		SRv6:   BorderSRv6{BlockLength: 32, FunctionLength: 16, VRF: ToggleAuto, LocatorRoute: true},
		Kernel: BorderKernel{
			Tables:       Tables{10000, 10999},
			RulePriority: 10000,
			Drop:         DropBlackhole,
			SetSysctls:   true,
		},
		Import: Import{IPv6MaxLength: 48, IPv4MaxLength: 24},
		BMP:    BMP{DeadTime: 9 * time.Second},
	}
}

// DefaultServer returns the meaning of an empty file of a server.
func DefaultServer() Server {
	return Server{
		Common: defaultCommon(RoleServer),
		Kernel: ServerKernel{
			Tables:       Tables{10000, 10999},
			RulePriority: 10000,
			MarkBase:     0x680000,
			MarkMask:     0xffffffff,
			Drop:         DropUnreachable,
			SetSysctls:   true,
		},
		MPTCP:  MPTCP{Mode: MPTCPOff, Addresses: 2, Subflows: 4, AddAddrTimeout: time.Second},
		Probe:  Probe{Interval: 40 * time.Millisecond, Lost: 5, Hold: time.Second, MTU: true},
		Limits: Limits{RoutesPerPath: 1_500_000, Connections: 200_000},
	}
}

func defaultCommon(role Role) Common {
	return Common{
		Role: role,
		BGP: BGP{
			Port:         179,
			HoldTime:     90 * time.Second,
			ConnectRetry: 5 * time.Second,
			StaleTime:    time.Minute,
		},
		API:   API{Socket: "/run/hikyaku-egress/api.sock", Mode: 0o660},
		State: State{Dir: "/var/lib/hikyaku-egress"},
		Log:   Log{Level: LevelInfo, Format: LogText},
		Flows: Flows{
			Interval: 100 * time.Millisecond,
			MaxFlows: 1 << 17,
			Idle:     60 * time.Second,
			JSON:     OutputOff,
			CSV:      OutputOff,
		},
	}
}

func defaultPeer() Peer {
	return Peer{
		Multihop: 1, Families: []Family{FamilyIPv6}, LocalRole: RoleNone, EnforceFirstAS: ToggleAuto,
		Routes:    RoutesBySession,
		MaxPrefix: MaxPrefix{MaxPrefixes: 1_500_000, MaxPrefixesWarning: 75, MaxPrefixesAction: MaxPrefixRefuse},
	}
}

func defaultCache() RPKICache {
	return RPKICache{Port: 323, Refresh: time.Hour, Retry: time.Minute, Expire: 2 * time.Hour}
}
