// Package preflight finds on a machine what would keep an agent, or the routing daemon beside
// it, from its work. It changes nothing. Each finding has its cause and its remedy.
//
// The quick checks read some netlink answers and are made at every start. [Input.Thorough]
// adds those that connect to neighbours or read whole tables.
package preflight
