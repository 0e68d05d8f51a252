package preflight

import (
	"fmt"

	"github.com/vishvananda/netlink"

	"hikyaku/egress/config"
	"hikyaku/egress/kernel"
)

// priorities is how many priorities of rules an agent takes, from kernel.rule_priority on.
const priorities = 10

// rules checks the policy rules of others against the agent's.
func (c *checker) rules() {
	for _, family := range []int{netlink.FAMILY_V6, netlink.FAMILY_V4} {
		rules, err := c.handle.RuleList(family)
		if err != nil {
			c.unread("the list of policy rules", err)
			return
		}
		for _, rule := range rules {
			if rule.Protocol != kernel.Protocol {
				c.rule(rule)
			}
		}
	}
}

func (c *checker) rule(rule netlink.Rule) {
	tables, first := c.numbers()
	switch {
	case rule.Priority >= int(first) && rule.Priority < int(first)+priorities:
		c.add(checkRule, Warning, fmt.Sprintf("rule %d (%s) has a priority of the agent's, %d to %d", rule.Priority, rule, first, first+priorities-1),
			"which of both comes first depends on who was there first", "set kernel.rule_priority to ten free ones, or give the rule another")
	case rule.Table > 0 && tables.Contains(uint32(rule.Table)):
		c.add(checkTable, Warning, fmt.Sprintf("rule %d (%s) looks up table %d, which is of kernel.tables", rule.Priority, rule, rule.Table),
			"its packets get the routes of one egress peer alone", "set kernel.tables to a free range, or give the rule another table")
	}
	if c.File.Server == nil || rule.Mark == 0 && rule.Mask == nil {
		return
	}
	mask := uint32(0xffffffff)
	if rule.Mask != nil {
		mask = *rule.Mask
	}
	for i := range c.File.Server.Paths {
		p := &c.File.Server.Paths[i]
		if p.Mark&mask == rule.Mark&mask && rule.Priority < int(first)+priorities {
			c.add(checkMark, Warning, fmt.Sprintf("rule %d (%s) takes packets with the mark %#x of path %s", rule.Priority, rule, p.Mark, p.Name),
				"it comes before the agent's, so that they do not leave by the path", "set kernel.mark_base and kernel.mark_mask to bits that nobody else uses")
		}
	}
}

// numbers are the tables and the first priority that the agent takes.
func (c *checker) numbers() (config.Tables, uint32) {
	if b := c.File.Border; b != nil {
		return b.Kernel.Tables, b.Kernel.RulePriority
	}
	return c.File.Server.Kernel.Tables, c.File.Server.Kernel.RulePriority
}

// tables reports routes of others in the tables of peers or paths.
func (c *checker) tables() {
	reader, err := kernel.Open(kernel.Options{})
	if err != nil {
		c.unread("the routing tables", err)
		return
	}
	defer reader.Close()
	owners := map[uint32]string{}
	if b := c.File.Border; b != nil {
		for i := range b.Peers {
			owners[b.Peers[i].Table] = "peer " + b.Peers[i].Name
		}
	} else {
		for i := range c.File.Server.Paths {
			owners[c.File.Server.Paths[i].Table] = "path " + c.File.Server.Paths[i].Name
		}
	}
	for table, name := range owners {
		foreign, err := reader.ForeignRoutes(c.ctx, table)
		if err != nil {
			c.unread(fmt.Sprintf("table %d", table), err)
			continue
		}
		for protocol, count := range foreign {
			c.add(checkTable, Warning, fmt.Sprintf("table %d of %s has %d routes of others, of protocol %d", table, name, count, protocol),
				"packets of the agent take them, too", fmt.Sprintf("`ip -6 route show table %d proto %d` shows them; set kernel.tables to a free range, or remove them", table, protocol))
		}
	}
}
