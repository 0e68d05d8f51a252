package port

// LargeCommunity is one of RFC 8092: an AS number and two values of its own choice.
type LargeCommunity = [3]uint32

// The first values of the large communities that hold a [State]: the letters "hyk" and the
// kind of the second value.
const (
	admittedTag = 0x68796b01 // number << 24 | shares
	billedTag   = 0x68796b02 // spare << 24 | shares
	priceTag    = 0x68796b03 // peering << 31 | price in thousandths

	highByte    = 24
	shareBits   = 8
	peeringFlag = 1 << 31
)

// Communities hold the state, for a route that stands for a path of the port. asn is the
// own AS.
func (s State) Communities(asn uint32) []LargeCommunity {
	price := min(s.Price, peeringFlag-1)
	if s.Kind == Peering {
		price |= peeringFlag
	}
	return []LargeCommunity{
		{asn, admittedTag, uint32(s.Number)<<highByte | s.Admitted.pack()},
		{asn, billedTag, uint32(s.Spare)<<highByte | s.Billed.pack()},
		{asn, priceTag, price},
	}
}

// FromCommunities reads what [State.Communities] has written. It returns false for a list
// without a valid state: the port's capacity is then unknown.
func FromCommunities(list []LargeCommunity, asn uint32) (State, bool) {
	var s State
	seen := 0
	for _, c := range list {
		if c[0] != asn {
			continue
		}
		value, ok := c[2], true
		switch c[1] {
		case admittedTag:
			s.Number = uint8(value >> highByte)
			s.Admitted, ok = unpack(value & (1<<highByte - 1))
			ok = ok && s.Number != 0
		case billedTag:
			s.Spare = uint8(value >> highByte)
			s.Billed, ok = unpack(value & (1<<highByte - 1))
			ok = ok && s.Spare <= MaxSpare
		case priceTag:
			s.Kind, s.Price = Transit, value&^peeringFlag
			if value&peeringFlag != 0 {
				s.Kind = Peering
			}
		default:
			continue
		}
		if !ok {
			return State{}, false
		}
		seen |= 1 << (c[1] - admittedTag)
	}
	if seen != 0b111 {
		return State{}, false
	}
	return s, true
}

// pack puts the first class into the highest bits.
func (s Shares) pack() (value uint32) {
	for _, share := range s {
		value = value<<shareBits | uint32(share)
	}
	return value
}

func unpack(value uint32) (s Shares, ok bool) {
	if value >= 1<<(shareBits*Classes) {
		return Shares{}, false
	}
	for class := Classes - 1; class >= 0; class-- {
		s[class] = uint8(value & (1<<shareBits - 1))
		if s[class] > Whole {
			return Shares{}, false
		}
		value >>= shareBits
	}
	return s, true
}
