package srv6

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
)

// Behavior is an endpoint behaviour's code point (RFC 8986 §10.2.2).
type Behavior uint16

// The behaviours that decapsulate and look up the inner packet in one table.
const (
	// EndDT6 is for inner IPv6 (RFC 8986 §4.6).
	EndDT6 Behavior = 0x12
	// EndDT4 is for inner IPv4 (RFC 8986 §4.7).
	EndDT4 Behavior = 0x13
	// EndDT46 is for both (RFC 8986 §4.8); on Linux it needs a VRF.
	EndDT46 Behavior = 0x14
)

// String returns the name in RFC 8986.
func (b Behavior) String() string {
	switch b {
	case EndDT6:
		return "End.DT6"
	case EndDT4:
		return "End.DT4"
	case EndDT46:
		return "End.DT46"
	default:
		return fmt.Sprintf("behaviour %#04x", uint16(b))
	}
}

// Structure is how a SID is divided, in bits (RFC 9252 §3.2.1). The zero value
// means that it was not announced.
type Structure struct {
	BlockBits    uint8
	NodeBits     uint8
	FunctionBits uint8
	ArgumentBits uint8
}

// Service is the SRv6 L3 service of a VPN route: where to send its packets
// (RFC 9252 §2).
type Service struct {
	// SID is the whole address, no part of it in the label.
	SID netip.Addr
	// Behavior is the behaviour that the endpoint announces. Do not decide on it: FRR 8.4 as
	// a route reflector rewrites the code.
	Behavior Behavior
	// Structure is the SID's division, zero when it was not announced.
	Structure Structure
}

var (
	// ErrNoService is returned for attributes without an SRv6 L3 service.
	ErrNoService = errors.New("route carries no SRv6 L3 service")
	// ErrTransposed is returned for a SID that is partly in the MPLS label (RFC 9252 §4).
	// Implementations do not agree on where in the label the bits are (FRR reads the low
	// ones). A wrong SID is a leak to another peer.
	ErrTransposed = errors.New("SID is transposed into the label, announce it without transposition")
)

// Attribute returns the BGP Prefix-SID attribute with this service in it. The
// structure goes along unless it is zero; transposition is never used.
func (s Service) Attribute() (*bgp.PathAttributePrefixSID, error) {
	if err := validSID(s.SID); err != nil {
		return nil, fmt.Errorf("announcing SRv6 service: %w", err)
	}
	var structure []bgp.PrefixSIDTLVInterface
	if d := s.Structure; d != (Structure{}) {
		if err := d.validate(); err != nil {
			return nil, fmt.Errorf("announcing SRv6 service %s: %w", s.SID, err)
		}
		structure = append(structure,
			bgp.NewSRv6SIDStructureSubSubTLV(d.BlockBits, d.NodeBits, d.FunctionBits, d.ArgumentBits, 0, 0))
	}
	info := bgp.NewSRv6InformationSubTLV(s.SID, bgp.SRBehavior(s.Behavior), structure...)
	return bgp.NewPathAttributePrefixSID(bgp.NewSRv6ServiceTLV(bgp.TLVTypeSRv6L3Service, info)), nil
}

// ServiceFromGoBGP finds the service among a path's attributes. Of several SIDs
// it takes the first, as RFC 9252 §3.1 demands.
//
// It fails with [ErrNoService], [ErrTransposed], or for a SID that no packet
// can be sent to.
func ServiceFromGoBGP(attrs []bgp.PathAttributeInterface) (Service, error) {
	for _, attr := range attrs {
		prefixSID, ok := attr.(*bgp.PathAttributePrefixSID)
		if !ok {
			continue
		}
		for _, tlv := range prefixSID.TLVs {
			service, ok := tlv.(*bgp.SRv6ServiceTLV)
			if !ok || service.Type != bgp.TLVTypeSRv6L3Service {
				continue
			}
			for _, sub := range service.SubTLVs {
				if info, ok := sub.(*bgp.SRv6InformationSubTLV); ok {
					return serviceFromInformation(info)
				}
			}
		}
	}
	return Service{}, ErrNoService
}

func serviceFromInformation(info *bgp.SRv6InformationSubTLV) (Service, error) {
	sid, ok := netip.AddrFromSlice(info.SID)
	if !ok {
		return Service{}, fmt.Errorf("SID has %d bytes instead of 16", len(info.SID))
	}
	if err := validSID(sid); err != nil {
		return Service{}, err
	}
	s := Service{SID: sid, Behavior: Behavior(info.EndpointBehavior)}
	for _, sub := range info.SubSubTLVs {
		d, ok := sub.(*bgp.SRv6SIDStructureSubSubTLV)
		if !ok {
			continue
		}
		if d.TranspositionLength != 0 {
			return Service{}, fmt.Errorf("SID %s: %w", sid, ErrTransposed)
		}
		s.Structure = Structure{
			BlockBits:    d.LocatorBlockLength,
			NodeBits:     d.LocatorNodeLength,
			FunctionBits: d.FunctionLength,
			ArgumentBits: d.ArgumentLength,
		}
		if err := s.Structure.validate(); err != nil {
			return Service{}, fmt.Errorf("SID %s: %w", sid, err)
		}
		break
	}
	return s, nil
}

// validate obeys RFC 9252 §7: "The sum of Locator Block, Locator Node, Function,
// and Argument lengths is greater than 128" makes the attribute invalid.
func (d Structure) validate() error {
	if sum := int(d.BlockBits) + int(d.NodeBits) + int(d.FunctionBits) + int(d.ArgumentBits); sum > 128 {
		return fmt.Errorf("SID structure has %d bits, more than 128", sum)
	}
	return nil
}

// validSID refuses addresses that can never be a segment of ours. An encapsulation towards
// a multicast, link-local or loopback address leaves the AS's control.
func validSID(sid netip.Addr) error {
	if !sid.Is6() || sid.Is4In6() || sid.Zone() != "" || sid.IsUnspecified() || sid.IsLoopback() ||
		sid.IsMulticast() || sid.IsLinkLocalUnicast() {
		return fmt.Errorf("%s is no address that can be a SID", sid)
	}
	return nil
}
