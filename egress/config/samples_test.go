package config

const goodBorder = `role = "border"
asn = 64500
router_id = "192.0.2.1"

[srv6]
locator = "2001:db8:b1::/48"
interfaces = ["eth0"]

[[reflector]]
name = "rr1"
address = "2001:db8::53"

[[peer]]
name = "transit-a"
number = 1
address = "2001:db8:a::1"
asn = 64496

[[peer]]
name = "transit-b"
number = 7
address = "2001:db8:b::1"
asn = 64497
`

const goodServer = `role = "server"
asn = 64500
router_id = "192.0.2.11"

[srv6]
interface = "eth0"
tunnel_source = "2001:db8:5::1"
locators = ["2001:db8:b1::/48", "2001:db8:b2::/48"]

[[reflector]]
name = "rr1"
address = "2001:db8::53"

[[path]]
name = "transit-a"
number = 1
border = "192.0.2.1"
peer = 1
addresses = ["2001:db8:5::a1"]

[[path]]
name = "transit-b"
number = 2
border = "192.0.2.1"
peer = 7
addresses = ["2001:db8:5::a2", "198.51.100.2"]
`
