// Package config reads the configuration of the egress agents: one TOML file
// for a border router ([Border]) or a content server ([Server]).
//
// All faults of a file are reported at once, each with its line and a caret. They are
// unknown keys, values of a wrong kind, and keys that do not fit together. Keys that a file
// leaves out have the defaults that conf/egress-border.toml and conf/egress-server.toml
// show. After [Load] every derived value is filled in: tables, marks, SIDs, route
// distinguishers and targets, ports, hold times. So no other package derives anything from
// a number again.
//
// # Numbers
//
// An egress peer has a number at its border, and a path has a number at a
// server. All else follows from them, stays the same over restarts and changes
// of the file, and can be read by people:
//
//	border, peer 7:  SID       LOCATOR:7::   (the function bits of the SID)
//	                 table     tables.first + 7
//	                 RD, RT    ROUTER_ID:7
//	server, path 3:  table     tables.first + 3
//	                 mark      mark_base + 3
//	                 RD, RT    BORDER:PEER, as the border derives them
package config
