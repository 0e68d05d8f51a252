package kernel

type encoder struct{}

func (Address) command(Verb) string              { panic("todo") }
func (Rule) command(Verb) string                 { panic("todo") }
func (Route) command(Verb) string                { panic("todo") }
func (Nexthop) command(Verb) string              { panic("todo") }
func (TunnelSource) command(Verb) string         { panic("todo") }
func (Address) encode(*encoder, Verb) error      { panic("todo") }
func (Rule) encode(*encoder, Verb) error         { panic("todo") }
func (Route) encode(*encoder, Verb) error        { panic("todo") }
func (Nexthop) encode(*encoder, Verb) error      { panic("todo") }
func (TunnelSource) encode(*encoder, Verb) error { panic("todo") }
func (r Route) normal() Route                    { panic("todo") }
