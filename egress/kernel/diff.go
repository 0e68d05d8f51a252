package kernel

// Diff returns the operations that turn have into want.
//
// Make comes before break: nexthops, routes, rules and addresses go in, then
// addresses, rules, routes and nexthops go out. After each operation a packet to a
// prefix takes its old way, its new way, or none, never a third: routes leave a
// nexthop object before it is repointed, the rule that stops an address's packets
// is there before the one which lets them into a table, and an SRv6 endpoint opens
// after the routes behind it and closes before them.
//
// The routes of a removed nexthop are not named: the kernel removes them with it.
// It keeps have.TunnelSource where want has none. have and want may be in any order
// and are not changed.
func Diff(have, want State) []Op { panic("todo") }
